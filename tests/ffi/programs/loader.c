/* Loads two copies of the library into one process, forks, and closes both: loader ENDPOINT LIBRARY COPY */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "standpipe.h"

#define EXPECT(what) ((what) ? (void)0 : fail(#what, __LINE__))

static void fail(const char *what, int line) {
    const char *error = dlerror();
    fprintf(stderr, "loader.c:%d: %s %s\n", line, what, error ? error : "");
    exit(1);
}

struct library {
    void *handle;
    int32_t (*start)(const standpipe_options *, standpipe **, char **);
    void (*free)(standpipe *);
    standpipe_tracer *(*tracer_new)(const standpipe *, const char *, const char *);
    void (*tracer_free)(standpipe_tracer *);
    standpipe_span *(*span_start)(const standpipe_tracer *, const char *, standpipe_span *);
    void (*span_end)(standpipe_span **);
    standpipe *telemetry;
    standpipe_tracer *tracer;
};

/* ISO C has no cast from an object pointer to a function pointer. */
static void find(struct library *library, const char *name, void *function) {
    void *symbol = dlsym(library->handle, name);
    EXPECT(symbol != NULL);
    memcpy(function, &symbol, sizeof symbol);
}

static struct library load(const char *path, const char *endpoint) {
    struct library library;
    standpipe_options options;
    library.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    EXPECT(library.handle != NULL);
    find(&library, "standpipe_start", &library.start);
    find(&library, "standpipe_free", &library.free);
    find(&library, "standpipe_tracer_new", &library.tracer_new);
    find(&library, "standpipe_tracer_free", &library.tracer_free);
    find(&library, "standpipe_span_start", &library.span_start);
    find(&library, "standpipe_span_end", &library.span_end);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.endpoint = endpoint;
    options.service = "loader";
    EXPECT(library.start(&options, &library.telemetry, NULL) == STANDPIPE_OK);
    library.tracer = library.tracer_new(library.telemetry, "loader", NULL);
    return library;
}

static void emit(const struct library *library, const char *name) {
    standpipe_span *span = library->span_start(library->tracer, name, NULL);
    library->span_end(&span);
}

static void unload(struct library *library) {
    library->tracer_free(library->tracer);
    library->free(library->telemetry);
    EXPECT(dlclose(library->handle) == 0);
}

/* The thread-locals of this thread are destroyed after the library was closed. */
static void *use(void *arguments) {
    char **paths = (char **)arguments;
    struct library first = load(paths[2], paths[1]), second = load(paths[3], paths[1]);
    int status;
    pid_t child;
    EXPECT(first.start != second.start);
    emit(&first, "first");
    emit(&second, "second");
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        alarm(20);
        emit(&first, "child of first");
        emit(&second, "child of second");
        unload(&first);
        unload(&second);
        exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    unload(&first);
    unload(&second);
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t thread;
    EXPECT(count == 4);
    alarm(30);
    EXPECT(pthread_create(&thread, NULL, use, arguments) == 0 && pthread_join(thread, NULL) == 0);
    return 0;
}
