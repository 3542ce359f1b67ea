/* Threads, forks, callbacks and signals: process PART ENDPOINT */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "standpipe.h"

#define EXPECT(what) ((what) ? (void)0 : fail(#what, __LINE__))

static void fail(const char *what, int line) {
    fprintf(stderr, "process.c:%d: %s\n", line, what);
    exit(1);
}

/* Starts telemetry that sends to the endpoint, or to that of the environment if the argument is "-". */
static standpipe *start_with(const char *endpoint, standpipe_problem_fn problem, uint32_t flags) {
    bool by_env = strcmp(endpoint, "-") == 0;
    standpipe_options options;
    standpipe *telemetry;
    char *error;
    int32_t code;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.endpoint = by_env ? NULL : endpoint;
    options.service = "process";
    options.problem = problem;
    options.user = &options;
    options.flags = flags;
    code = (by_env ? standpipe_start_from_env : standpipe_start)(&options, &telemetry, &error);
    if (code != STANDPIPE_OK)
        fail(error, __LINE__);
    return telemetry;
}

static standpipe *start(const char *endpoint, standpipe_problem_fn problem) {
    return start_with(endpoint, problem, 0);
}

static void emit(standpipe *telemetry, const char *name) {
    standpipe_tracer *tracer = standpipe_tracer_new(telemetry, "process", NULL);
    standpipe_span *span = standpipe_span_start(tracer, name, NULL);
    standpipe_span_end(&span);
    standpipe_tracer_free(tracer);
}

/* ---- scopes ---- */

static void *leave_elsewhere(void *scope) {
    standpipe_scope before = *(standpipe_scope *)scope;
    EXPECT(standpipe_scope_leave((standpipe_scope *)scope) == STANDPIPE_WRONG_THREAD);
    EXPECT(memcmp(&before, scope, sizeof before) == 0);
    EXPECT(standpipe_span_traceparent(NULL, NULL) == STANDPIPE_NO_SPAN);
    return NULL;
}

static void scopes(const char *endpoint) {
    standpipe *telemetry = start(endpoint, NULL);
    standpipe_tracer *tracer = standpipe_tracer_new(telemetry, "process", NULL);
    standpipe_span *outer = standpipe_span_start(tracer, "outer", NULL), *inner;
    standpipe_scope first, second;
    pthread_t thread;
    EXPECT(standpipe_span_enter(outer, &first) == STANDPIPE_OK);
    EXPECT(pthread_create(&thread, NULL, leave_elsewhere, &first) == 0 && pthread_join(thread, NULL) == 0);
    EXPECT(standpipe_span_traceparent(NULL, NULL) == STANDPIPE_OK);
    inner = standpipe_span_start(tracer, "inner", NULL);
    EXPECT(standpipe_span_enter(inner, &second) == STANDPIPE_OK);
    /* scopes can be left in any order, and after the end of their span */
    standpipe_span_end(&inner);
    EXPECT(standpipe_scope_leave(&first) == STANDPIPE_OK);
    EXPECT(standpipe_scope_leave(&second) == STANDPIPE_OK);
    EXPECT(standpipe_span_traceparent(NULL, NULL) == STANDPIPE_NO_SPAN);
    standpipe_span_end(&outer);
    standpipe_tracer_free(tracer);
    standpipe_free(telemetry);
}

/* ---- fork ---- */

static void forks(const char *endpoint) {
    standpipe *telemetry = start(endpoint, NULL);
    standpipe_tracer *tracer = standpipe_tracer_new(telemetry, "process", NULL);
    standpipe_span *open = standpipe_span_start(tracer, "open", NULL), *span;
    standpipe_scope scope;
    standpipe_ledger ledger;
    int status;
    pid_t child;
    EXPECT(standpipe_span_enter(open, &scope) == STANDPIPE_OK);
    emit(telemetry, "before");
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        alarm(20);
        span = standpipe_span_start(tracer, "child", NULL);
        standpipe_span_end(&span);
        EXPECT(standpipe_scope_leave(&scope) == STANDPIPE_OK);
        standpipe_span_end(&open);
        memset(&ledger, 0, sizeof ledger);
        ledger.size = sizeof ledger;
        EXPECT(standpipe_shutdown(telemetry, 5000, &ledger) == STANDPIPE_OK);
        EXPECT(ledger.accepted == 1 && ledger.delivered == 1);
        standpipe_tracer_free(tracer);
        standpipe_free(telemetry);
        exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT(standpipe_scope_leave(&scope) == STANDPIPE_OK);
    standpipe_span_end(&open);
    standpipe_tracer_free(tracer);
    standpipe_free(telemetry);
}

/* ---- the callback, and free ---- */

static standpipe *known;
static sem_t entered, freed;
static int calls, has_returned;

static struct timespec after(long milliseconds) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += milliseconds * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

/* Waits for 200 ms. During this time, standpipe_free must not return. */
static void linger(void *user, int32_t kind, const char *message, uint64_t times) {
    struct timespec soon = after(200);
    EXPECT(user != NULL && kind == STANDPIPE_PROBLEM_UNAVAILABLE && times == 1);
    EXPECT(strncmp(message, "exporter ", 9) == 0);
    calls++;
    sem_post(&entered);
    EXPECT(sem_timedwait(&freed, &soon) != 0);
    has_returned = 1;
}

static void free_waits(const char *endpoint) {
    standpipe *telemetry = start(endpoint, linger);
    emit(telemetry, "unsent");
    EXPECT(standpipe_flush(telemetry, 0, NULL) == STANDPIPE_INCOMPLETE);
    EXPECT(sem_wait(&entered) == 0);
    /* the library's thread cannot end before the callback */
    EXPECT(standpipe_shutdown(telemetry, 0, NULL) == STANDPIPE_INCOMPLETE);
    standpipe_free(telemetry);
    sem_post(&freed);
    EXPECT(has_returned && calls == 1);
}

static void free_here(void *user, int32_t kind, const char *message, uint64_t times) {
    (void)user, (void)kind, (void)message, (void)times;
    /* wait until `known` is set */
    EXPECT(sem_wait(&freed) == 0);
    calls++;
    standpipe_free(known);
    EXPECT(standpipe_log_enabled(NULL, STANDPIPE_INFO) == false);
    sem_post(&entered);
}

static void free_inside(const char *endpoint) {
    known = start(endpoint, free_here);
    emit(known, "unsent");
    EXPECT(standpipe_flush(known, 0, NULL) == STANDPIPE_INCOMPLETE);
    sem_post(&freed);
    EXPECT(sem_wait(&entered) == 0 && calls == 1);
}

/* ---- without a thread ---- */

static int threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int count = 0;
    if (tasks == NULL)
        return 1; /* not on this system */
    while ((task = readdir(tasks)) != NULL)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void manual(const char *endpoint) {
    standpipe *telemetry = start_with(endpoint, NULL, STANDPIPE_MANUAL);
    standpipe_ledger ledger;
    uint32_t next;
    memset(&ledger, 0, sizeof ledger);
    ledger.size = sizeof ledger;
    EXPECT(standpipe_pump(telemetry, 1000, NULL) == STANDPIPE_OK);
    emit(telemetry, "pumped");
    /* without a budget nothing is sent, and the next call is due soon */
    EXPECT(standpipe_pump(telemetry, 0, &next) == STANDPIPE_OK && next < 10000);
    EXPECT(standpipe_get_ledger(telemetry, &ledger) == STANDPIPE_OK && ledger.in_flight == 1);
    EXPECT(standpipe_flush(telemetry, 5000, NULL) == STANDPIPE_OK && threads() == 1);
    EXPECT(standpipe_get_ledger(telemetry, &ledger) == STANDPIPE_OK && ledger.delivered == 1);
    EXPECT(standpipe_shutdown(telemetry, 5000, NULL) == STANDPIPE_OK && threads() == 1);
    standpipe_free(telemetry);
}

/* Frees the telemetry inside the function that calls this callback. */
static void free_underneath(void *user, int32_t kind, const char *message, uint64_t times) {
    (void)user, (void)kind, (void)message, (void)times;
    calls++;
    standpipe_free(known);
}

static void manual_free_inside(const char *endpoint) {
    known = start_with(endpoint, free_underneath, STANDPIPE_MANUAL);
    emit(known, "unsent");
    /* wait until an attempt has failed; the alarm limits the wait */
    while (calls == 0)
        standpipe_flush(known, 50, NULL);
    EXPECT(calls == 1 && threads() == 1);
}

/* ---- signals ---- */

static void note(void *user, int32_t kind, const char *message, uint64_t times) {
    (void)user, (void)kind, (void)message, (void)times;
    sem_post(&entered);
}

/* Sends to a server that hangs up during the request. SIGPIPE would end this process. */
static void broken_pipes(const char *endpoint) {
    static char large[64 * 1024];
    standpipe *telemetry = start(endpoint, note);
    standpipe_tracer *tracer = standpipe_tracer_new(telemetry, "process", NULL);
    int round, index;
    memset(large, 'x', sizeof large - 1);
    signal(SIGPIPE, SIG_DFL);
    for (round = 0; round < 8; round++) {
        for (index = 0; index < 16; index++) {
            standpipe_span *span = standpipe_span_start(tracer, "large", NULL);
            standpipe_span_set_str(span, "large", large);
            standpipe_span_end(&span);
        }
        standpipe_flush(telemetry, 20, NULL);
    }
    /* wait until the server has hung up */
    EXPECT(sem_wait(&entered) == 0);
    standpipe_shutdown(telemetry, 100, NULL);
    standpipe_tracer_free(tracer);
    standpipe_free(telemetry);
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(const char *endpoint);
    } parts[] = {{"scopes", scopes},           {"forks", forks},
                 {"free_waits", free_waits},   {"free_inside", free_inside},
                 {"manual", manual},           {"manual_free_inside", manual_free_inside},
                 {"broken_pipes", broken_pipes}};
    size_t index;
    EXPECT(count == 3 && sem_init(&entered, 0, 0) == 0 && sem_init(&freed, 0, 0) == 0);
    alarm(30);
    for (index = 0; index < sizeof parts / sizeof *parts; index++) {
        if (strcmp(arguments[1], parts[index].name) == 0) {
            parts[index].run(arguments[2]);
            return 0;
        }
    }
    fail("no such part", __LINE__);
    return 1;
}
