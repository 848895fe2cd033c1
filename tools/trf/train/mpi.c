// trf train by several processes: everything that calls MPI. See mpi.h.
//
// Every rank has the whole model and the same batches; the trainer computes this rank's parts of
// each, and calls begin_sum with gradients as soon as a layer's are complete. With --reduce ordered
// each rank receives a share of every slice from all ranks, adds it up in the order of the ranks,
// and sends the sum to all. So the sums have the same bits as in one process that computes the same
// parts, and a rank sends 2 (R - 1) / R times the gradient, as little as any algorithm does. More
// parts than ranks are computed in rounds, and each round is added up by itself: k rounds send k
// times as much.
// --reduce fast leaves the order of the sums to MPI.

#include "mpi.h"

#include <unistd.h>

static int launched, number;        /* processes of mpirun, or 0; this one's number among them */

int is_launched(void) { return launched > 0; }

/* The variables by which launchers tell a process how many there are, and which one it is. */
static const char *const launchers[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                           {"PMI_SIZE", "PMI_RANK"},
                                           {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};

static FILE *kept_messages;         /* of a rank that is not the first one */
static char *kept_text;
static size_t kept_bytes;
static int ever_joined;

#ifdef TRF_WITH_MPI
/* Prints the messages that a rank other than 0 kept, each with its number. */
static void tell(void)
{
    const char *line, *end;
    if (!kept_messages) return;
    fflush(kept_messages);
    for (line = kept_text; *line; line = end + (*end != 0)) {
        end = strchrnul(line, '\n');
        fprintf(stderr, "rank %d: %.*s\n", number, (int)(end - line), line);
    }
    message_file = NULL;
    fclose(kept_messages);
    free(kept_text);
    kept_messages = NULL;
}
#endif

/* mpirun ends all ranks as soon as one ends with an error, even before rank 0 has said why. So a
   rank that has not joined the others waits for a second. Rank 0 says what it would say. */
static void end_after_first(void)
{
    if (!ever_joined) sleep(1);
}

void meet_launcher(void)
{
    size_t i;
    for (i = 0; i < sizeof launchers / sizeof *launchers && !launched; i++) {
        const char *size = getenv(launchers[i][0]), *rank = getenv(launchers[i][1]);
        if (!size || !rank || atoi(size) < 1) continue;
        launched = atoi(size);
        number = atoi(rank);
    }
    if (number == 0) return;
    quiet = 1;
    kept_messages = message_file = open_memstream(&kept_text, &kept_bytes);
    if (!freopen("/dev/null", "w", stdout)) say("cannot open /dev/null");
    atexit(end_after_first);
}

int settle_parts(struct settings *s, int32_t stored)
{
    int32_t parts = stored ? stored : is_launched() ? n_ranks() : 0;
    if (is_given(s, AT(training.parts))) parts = s->training.parts;
    s->training.parts = parts;
    if (parts >= n_ranks() || n_ranks() == 1) return DONE;
    if (is_given(s, AT(training.parts)))
        say("--parts %d leaves nothing to do for some of the %d processes", (int)parts, n_ranks());
    else
        say("the checkpoint divides batches into %d parts, which is work for at most %d processes, "
            "but mpirun started %d; --parts %d divides them anew, and changes the last bits of sums",
            (int)parts, (int)parts, n_ranks(), n_ranks());
    return USAGE;
}

int check_parts(const struct settings *s)
{
    if (s->training.parts <= s->corpus.batch_tokens) return DONE;
    say("--parts %d is more than the %d tokens of a batch (--batch-tokens): some parts would be empty",
        (int)s->training.parts, (int)s->corpus.batch_tokens);
    return USAGE;
}

#ifdef TRF_WITH_MPI

#include <mpi.h>
#include <sched.h>
#include <time.h>

static int joined, count = 1, fast;
static int told;                /* rank 0 has said what failed */
static int blameless;           /* another rank failed, and says why */
/* Calls on different communicators do not wait for one another: `training` and `gathering` have the
   sums and what ranks tell each other between them, `ending` what ends the program. */
static MPI_Comm training, gathering, ending;
static int64_t sent;

int n_ranks(void) { return count; }
int is_first_rank(void) { return number == 0; }
int has_mpi(void) { return 1; }
int64_t bytes_sent(void) { return fast ? -1 : sent; }

// -----------------------------------------------------------------------------------------------
// >>ending         together, or all at once
// -----------------------------------------------------------------------------------------------

static void end_all(int status)
{
    joined = 0;
    tell();
    MPI_Abort(MPI_COMM_WORLD, status);
    _exit(status);
}

/* A program that ends in the middle, for want of memory, ends the others. */
static void end_at_exit(void)
{
    if (joined) end_all(FAILED);
}

/* Says which call of MPI failed. Returns whether it did. */
static int failed(const char *doing, int code)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length;
    if (code == MPI_SUCCESS) return 0;
    MPI_Error_string(code, text, &length);
    say("MPI cannot %s: %s", doing, text);
    return 1;
}

static void must(const char *doing, int code)
{
    if (failed(doing, code)) end_all(FAILED);
}

static void nap(void)
{
    struct timespec millisecond = {0, 1000000};
    nanosleep(&millisecond, NULL);
}

/* Waits without a processor's time: rank 0 may need it, to validate or to save. */
static void wait_gently(MPI_Request *request, const char *doing)
{
    int done = 0;
    for (;;) {
        must(doing, MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) return;
        nap();
    }
}

int any_failed(int failed_here)
{
    int all = failed_here;
    most_of_all(&all, 1);
    blameless |= all && !failed_here;
    return all;
}

int agree_status(int status)
{
    enum { PATIENCE = 3 };      /* seconds: the others may find the same error a little later */
    int mine[2], all[2], done = 0;
    double began = now();
    MPI_Request request;
    if (!joined) return status;
    mine[0] = -status;
    mine[1] = status && !blameless ? number : count;
    must("agree", MPI_Iallreduce(mine, all, 2, MPI_INT, MPI_MIN, ending, &request));
    for (;;) {
        must("agree", MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        if (done) break;
        if (status && !told && now() - began > PATIENCE) end_all(status);
        nap();
    }
    if (all[1] == number) tell();
    return -all[0];
}

int leave_ranks(int status)
{
    if (!joined) return status;
    status = agree_status(status);
    joined = 0;
    MPI_Finalize();
    return status;
}

// -----------------------------------------------------------------------------------------------
// >>telling        small things
// -----------------------------------------------------------------------------------------------

void share_first(void *data, size_t bytes)
{
    MPI_Request request;
    if (count == 1) return;
    must("share", MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, training, &request));
    wait_gently(&request, "share");
}

int status_of_first(int status)
{
    share_first(&status, sizeof status);
    told |= status && number;
    return status;
}

void most_numbers(double numbers[], int n)
{
    if (count == 1) return;
    must("agree", MPI_Allreduce(MPI_IN_PLACE, numbers, n, MPI_DOUBLE, MPI_MAX, training));
}

void most_of_all(int numbers[], int n)
{
    if (count == 1) return;
    must("agree", MPI_Allreduce(MPI_IN_PLACE, numbers, n, MPI_INT, MPI_MAX, training));
}

int differing_rank(uint64_t mine)
{
    uint64_t first = mine;
    int rank;
    if (count == 1) return 0;
    share_first(&first, sizeof first);
    rank = first == mine ? count : number;
    must("compare", MPI_Allreduce(MPI_IN_PLACE, &rank, 1, MPI_INT, MPI_MIN, training));
    return rank == count ? 0 : rank;
}

// -----------------------------------------------------------------------------------------------
// >>sums           of gradients
// -----------------------------------------------------------------------------------------------

/* A slice whose sum has begun. */
struct slice {
    trf_real *values, *received;    /* received: this rank's share, from rank 0, 1, ... */
    size_t n, received_capacity;
    int *counts, *places;           /* of the shares of all ranks in values */
    int *own, *from;                /* how much each rank sends here, and where in received */
    MPI_Request request;
};

static struct slice *slices;
static size_t n_slices, n_gathering;        /* the first n_gathering are on their way back */
static size_t slices_made, slices_capacity;
static MPI_Datatype real(void) { return sizeof(trf_real) == 8 ? MPI_DOUBLE : MPI_FLOAT; }

static struct slice *next_slice(trf_real *values, size_t n)
{
    struct slice *s;
    slices = grow(slices, &slices_capacity, n_slices + 1, sizeof *slices);
    s = &slices[n_slices];
    if (n_slices++ == slices_made) {
        memset(s, 0, sizeof *s);
        s->counts = zeroed(4 * (size_t)count, sizeof *s->counts);
        s->places = s->counts + count;
        s->own = s->places + count;
        s->from = s->own + count;
        slices_made++;
    }
    s->values = values;
    s->n = n;
    return s;
}

/* Sends every rank its share of the values. */
static int begin_shares(struct slice *s)
{
    size_t ranks = (size_t)count, own, k;
    for (k = 0; k < ranks; k++) {
        s->places[k] = (int)(s->n * k / ranks);
        s->counts[k] = (int)(s->n * (k + 1) / ranks) - s->places[k];
    }
    own = (size_t)s->counts[number];
    for (k = 0; k < ranks; k++) {
        s->own[k] = (int)own;
        s->from[k] = (int)(own * k);
    }
    s->received = grow(s->received, &s->received_capacity, own * ranks, sizeof *s->received);
    sent += (int64_t)((s->n - own + own * (ranks - 1)) * sizeof *s->values);
    return MPI_Ialltoallv(s->values, s->counts, s->places, real(), s->received, s->own, s->from,
                          real(), training, &s->request);
}

/* Adds up this rank's share, which is there, and sends it to all others. */
static int begin_gathering(struct slice *s)
{
    trf_real *to = s->values + s->places[number];
    size_t own = (size_t)s->counts[number], i;
    int k;
    if (own) memcpy(to, s->received, own * sizeof *to);
    for (k = 1; k < count; k++) {
        const trf_real *from = s->received + s->from[k];
        for (i = 0; i < own; i++) to[i] += from[i];
    }
    return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, s->values, s->counts, s->places,
                           real(), gathering, &s->request);
}

/* Sends on the sums of slices whose shares have arrived, or waits for all of them. Ranks may do
   this at different moments, but in the same order: gathering is a communicator of its own. */
static int gather(int all)
{
    for (; n_gathering < n_slices; n_gathering++) {
        struct slice *s = &slices[n_gathering];
        int there = 1, code = all ? MPI_Wait(&s->request, MPI_STATUS_IGNORE)
                                  : MPI_Test(&s->request, &there, MPI_STATUS_IGNORE);
        if (!code && there) code = begin_gathering(s);
        if (code || !there) return code;
    }
    return MPI_SUCCESS;
}

/* The trainer's all_reduce. MPI counts in int, so long slices are cut. */
static int begin_sum(void *user, trf_real *gradients, size_t n, void *stream)
{
    enum { MOST = 1 << 26 };
    (void)user;
    (void)stream;
    while (n) {
        size_t some = n < MOST ? n : MOST;
        struct slice *s = next_slice(gradients, some);
        if (failed("add up gradients",
                   fast ? MPI_Iallreduce(MPI_IN_PLACE, s->values, (int)some, real(), MPI_SUM,
                                         training, &s->request)
                        : begin_shares(s)) ||
            (!fast && failed("add up gradients", gather(0))))
            return 1;
        gradients += some;
        n -= some;
    }
    return 0;
}

static int end_sum(void *user)
{
    size_t i;
    int code = fast ? MPI_SUCCESS : gather(1);
    (void)user;
    for (i = 0; i < n_slices && !code; i++) code = MPI_Wait(&slices[i].request, MPI_STATUS_IGNORE);
    n_slices = n_gathering = 0;
    return failed("add up gradients", code);
}

// -----------------------------------------------------------------------------------------------
// >>joining
// -----------------------------------------------------------------------------------------------

/* The processors of this machine are for all its ranks. */
static int32_t own_threads(void)
{
    MPI_Comm here;
    int ranks_here = 1, own = (int)sysconf(_SC_NPROCESSORS_ONLN), all = own;
#ifdef __linux__
    cpu_set_t set, together;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) own = CPU_COUNT(&set);
    else memset(&set, 0xFF, sizeof set);
#endif
    must("find the ranks of this machine",
         MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here));
    MPI_Comm_size(here, &ranks_here);
#ifdef __linux__
    must("find the processors",
         MPI_Allreduce(&set, &together, (int)sizeof set, MPI_BYTE, MPI_BOR, here));
    if (CPU_COUNT(&together) < all) all = CPU_COUNT(&together);
#endif
    MPI_Comm_free(&here);
    all /= ranks_here;
    return all < 1 ? 1 : all < own ? all : own;
}

static void make_communicators(void)
{
    MPI_Comm *made[3];
    int i;
    made[0] = &training;
    made[1] = &gathering;
    made[2] = &ending;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (i = 0; i < 3; i++) {
        must("begin", MPI_Comm_dup(MPI_COMM_WORLD, made[i]));
        MPI_Comm_set_errhandler(*made[i], MPI_ERRORS_RETURN);
    }
}

int connect_ranks(void)
{
    int provided;
    if (launched == 0) return DONE;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided)) {
        say("MPI cannot begin");
        return FAILED;
    }
    joined = ever_joined = 1;
    atexit(end_at_exit);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    make_communicators();
    if (count == launched) return DONE;
    say("%d processes were started, but MPI connects %d of them: this trf was built with a "
        "different MPI from that of the program that started it", launched, count);
    return FAILED;
}

int join_ranks(struct settings *s, int trains)
{
    if (launched == 0 || (launched == 1 && !trains)) return DONE;
    if (!trains) {
        say("only trf train runs as several processes, but mpirun started %d", launched);
        return USAGE;
    }
    s->training.rank = number;
    s->training.n_ranks = count;
    if (count == 1) return DONE;
    s->training.all_reduce = begin_sum;
    s->training.all_reduce_end = end_sum;
    fast = s->train.reduce;
    if (!is_given(s, AT(device.threads)))
        s->device.threads = s->config.device.threads = own_threads();
    if (s->device.kind == TRF_DEVICE_CPU) return DONE;
    say("mpirun is for processors: it adds up gradients in their memory, and --device %s keeps "
        "them in that of the GPU", text_given(s, AT(device)));
    return USAGE;
}

#else

int n_ranks(void) { return 1; }
int is_first_rank(void) { return 1; }
int has_mpi(void) { return 0; }
int connect_ranks(void) { return DONE; }
int64_t bytes_sent(void) { return 0; }
int agree_status(int status) { return status; }
int leave_ranks(int status) { return status; }
int status_of_first(int status) { return status; }
int any_failed(int failed_here) { return failed_here; }

void share_first(void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
}

void most_of_all(int numbers[], int n)
{
    (void)numbers;
    (void)n;
}

void most_numbers(double numbers[], int n)
{
    (void)numbers;
    (void)n;
}

int differing_rank(uint64_t mine)
{
    (void)mine;
    return 0;
}

int join_ranks(struct settings *s, int trains)
{
    (void)s;
    if (launched < 2) return DONE;
    say(trains ? "mpirun started %d processes, but this trf was built without MPI and trains in "
                 "one: make MPI=1 builds one that shares the work"
               : "only trf train runs as several processes, but mpirun started %d",
        launched);
    return trains ? FAILED : USAGE;
}

#endif
