// trf: the man page and the completion of shells. See manual.c.

#ifndef TRF_MANUAL_H
#define TRF_MANUAL_H

void print_manual(void);                        /* on standard output */
int print_completion(const char *shell);        /* USAGE: it is neither bash nor zsh */

#endif
