// What every sample server needs: a listener, a thread per connection, and an orderly end on SIGTERM.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DRAIN_MS = 2000 };

// Takes a fresh connection, as a pointer-sized number, and closes it in the end.
typedef void *(*converser)(void *link);

static atomic_int stopping, busy;  // `busy` counts requests that are being answered

static void pause_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

static int send_all(int link, const void *content, size_t size) {
    for (size_t sent = 0; sent < size;) {
        ssize_t more = send(link, (const char *)content + sent, size - sent, MSG_NOSIGNAL);
        if (more <= 0) return 0;
        sent += more;
    }
    return 1;
}

// The first process of a container ignores a signal unless a thread waits for it.
static void *await_end(void *signals) {
    int which;
    sigwait(signals, &which);
    atomic_store(&stopping, 1);
    for (int waited_ms = 0; atomic_load(&busy) && waited_ms < DRAIN_MS; waited_ms += 5) pause_ms(5);
    exit(0);
}

static void mind_signals(void) {
    static sigset_t ends;
    pthread_t thread;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    pthread_create(&thread, NULL, await_end, &ends);
}

// For tests on one machine, where several want to listen.
static int port_or(int usual) {
    const char *given = getenv("SAMPLE_PORT");
    return given ? atoi(given) : usual;
}

static void open_door(int port, converser converse) {
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port_or(port))};
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(door, (void *)&here, sizeof here) || listen(door, 256)) {
        perror("listen");
        exit(1);
    }
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 192 * 1024);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    for (;;) {
        pthread_t thread;
        int link = accept(door, NULL, NULL);
        if (link < 0) continue;
        setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        if (atomic_load(&stopping) || pthread_create(&thread, &small, converse, (void *)(intptr_t)link)) close(link);
    }
}
