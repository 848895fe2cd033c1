/* The functions of the operating system as a suite replaces them, so that it can make them fail.
   Include it before transformer.h; the suite defines the functions behind it. */
#ifndef FAULTY_H
#define FAULTY_H

#include <stddef.h>
#include <stdint.h>

struct trf_os_facts;
static int faulty_open(const char *path, int create, int mode);
static int faulty_rename(const char *from, const char *to);
static int faulty_unlink(const char *path);
static int faulty_chmod(const char *path, int mode);
static int faulty_stat(const char *path, int fd, struct trf_os_facts *facts);
static int faulty_sync(int fd);
static int faulty_close(int fd);
static int faulty_seek(int fd, uint64_t offset);
static int64_t faulty_read_at(int fd, uint64_t offset, void *to, size_t bytes);
static int64_t faulty_write(int fd, const void *from, size_t bytes);
static uint32_t faulty_pid(void);
static int faulty_hold(const char *path, int fd);
#define faulty_map trf_os_map           /* a mapping that fails is a file that is read */
#define faulty_unmap trf_os_unmap
#define TRF_OS(name) faulty_##name

#endif
