// trf train by several processes, which mpirun starts and MPI connects (mpi.c).
//
// MPI calls a process a rank. Rank 0 prints, validates and writes files. The others are silent;
// what they have to say is printed if they are the ones that fail.
// SPDX-License-Identifier: MIT

#ifndef TRF_MPI_H
#define TRF_MPI_H

#include "base/base.h"

void meet_launcher(void);   /* first of all: ranks but 0 are silent from here on */
/* Joins the processes that mpirun started. With MPICH they would wait for ever for one that ends
   before that. Where MPI cannot begin: a message, and the exit status. Without mpirun, or without
   MPI, nothing happens. */
int connect_ranks(void);
/* Sets what the trainer needs to train with them. A command other than trf train, a trf without
   MPI, or a device that it cannot add up on: a message, and the exit status. */
int join_ranks(struct settings *s, int trains);
/* Waits for all ranks at the end. Returns the worst status of all, which is that of the program. */
int leave_ranks(int status);

int n_ranks(void);          /* 1 without mpirun */
int is_first_rank(void);
int has_mpi(void);          /* whether this trf was built with it */
int is_launched(void);      /* by mpirun, also as the only rank */

/* --parts: as given, else as stored in the checkpoint (0: not divided), else a part for each
   rank. Fails if there are fewer parts than ranks. */
int settle_parts(struct settings *s, int32_t stored);
/* Fails if a batch has fewer tokens than parts. */
int check_parts(const struct settings *s);

/* All ranks call these together.
   agree_status returns the worst status; the first rank that failed prints its messages. Where
   other ranks do not come, a rank that failed ends them all after some seconds.
   share_first copies what rank 0 has to all others. most_of_all replaces each number by the largest
   of all ranks. any_failed: whether one of them did; the one that did prints its messages at the end.
   differing_rank returns the first rank whose number is not that of rank 0, or 0. */
int agree_status(int status);
void share_first(void *data, size_t bytes);
void most_of_all(int numbers[], int n);
void most_numbers(double numbers[], int n);
void most_numbers(double numbers[], int n);
int any_failed(int failed_here);
int differing_rank(uint64_t number);
/* The same status on all ranks: that of rank 0, which may have something to save before it ends. */
int status_of_first(int status);

/* Bytes that this rank sent to add up gradients; -1 if MPI alone knows (--reduce fast). */
int64_t bytes_sent(void);

#endif
