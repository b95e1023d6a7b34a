// witness: writes a number below /data, makes sure it is on the disk, and only then reports it.
//
// Every 50 ms the next number is appended to /data/sequence and fsynced; only then `/` shows it and $WITNESS_COLLECTOR
// gets {"instance","epoch","seq"}. What was reported must be found in the file later: a missing number is data loss,
// two instances taking turns is dual running, a gap is downtime.
#define _GNU_SOURCE
#include "../hello/http.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

enum { PERIOD_MS = 50 };

static const char *folder = "/data";
static char instance[128], epoch[32];
static _Atomic uint64_t sequence;

static void describe(char *text, size_t size, uint64_t number) {
    snprintf(text, size, "{\"instance\":\"%s\",\"epoch\":%s,\"seq\":%" PRIu64 "}\n", instance, epoch, number);
}

static int answer(const char *path, char *body, const char **type) {
    if (!strcmp(path, "/health")) return snprintf(body, BODY_MAX, "ok\n"), 200;
    if (strcmp(path, "/")) return snprintf(body, BODY_MAX, "there is nothing here\n"), 404;
    *type = "application/json";
    describe(body, BODY_MAX, atomic_load(&sequence));
    return 200;
}

// One line is "seq instance epoch"; a torn last line was never reported, so it is cut off.
static int open_book(void) {
    char path[256], line[512];
    snprintf(path, sizeof path, "%s/sequence", folder);
    int book = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    FILE *read = fopen(path, "re");
    if (book < 0 || !read) perror(path), exit(1);
    off_t whole = 0;
    while (fgets(line, sizeof line, read) && strchr(line, '\n')) {
        atomic_store(&sequence, strtoull(line, NULL, 10));
        whole = ftello(read);
    }
    fclose(read);
    if (ftruncate(book, whole) || fsync(book)) perror(path), exit(1);
    int place = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // the name itself must survive a power cut too
    if (place < 0 || fsync(place)) perror(folder), exit(1);
    close(place);
    return book;
}

// ---- the collector: http://A.B.C.D:PORT/PATH is sent a POST, tcp://A.B.C.D:PORT one line, udp://… one datagram each

static struct sockaddr_in collector;
static char scheme[8] = "", target[256] = "/", where[64];

static void find_collector(void) {
    const char *given = getenv("WITNESS_COLLECTOR");
    unsigned port = 0;
    char host[32] = "";
    if (!given || !*given) return;
    if (!strstr(given, "://")) snprintf(scheme, sizeof scheme, "udp");
    else if (sscanf(given, "%7[a-z]://", scheme) == 1) given = strstr(given, "://") + 3;
    int found = sscanf(given, "%31[0-9.]:%u%255s", host, &port, target);
    collector = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(found >= 2 ? port : 80)};
    snprintf(where, sizeof where, "%s:%u", host, ntohs(collector.sin_port));
    if (found >= 1 && inet_pton(AF_INET, host, &collector.sin_addr) == 1) return;
    fprintf(stderr, "WITNESS_COLLECTOR is http://, tcp:// or udp:// with a numeric address, not %s\n", given);
    scheme[0] = 0;
}

static int call_collector(int kind) {
    struct timeval patience = {.tv_usec = 500000};
    int wire = socket(AF_INET, kind | SOCK_CLOEXEC, 0);
    setsockopt(wire, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  // also bounds connect
    setsockopt(wire, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (!connect(wire, (void *)&collector, sizeof collector)) return wire;
    close(wire);
    return -1;
}

static void post(const char *report) {
    char request[1024], scrap[1024];
    int wire = call_collector(SOCK_STREAM);
    if (wire < 0) return;
    int size = snprintf(request, sizeof request,
                        "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                        "Connection: close\r\n\r\n%s",
                        target, where, strlen(report), report);
    if (send(wire, request, size, MSG_NOSIGNAL) == size) while (recv(wire, scrap, sizeof scrap, 0) > 0);
    close(wire);
}

// Beside the writer, so that a slow collector never slows the disk down; it tells the newest number it finds.
static void *keep_reporting(void *unused) {
    uint64_t told = 0;
    int wire = -1, kind = strcmp(scheme, "udp") ? SOCK_STREAM : SOCK_DGRAM;
    for (;; pause_ms(PERIOD_MS)) {
        char report[512];
        uint64_t number = atomic_load(&sequence);
        if (number == told || !number) continue;
        describe(report, sizeof report, told = number);
        if (!strcmp(scheme, "http")) {
            post(report);
            continue;
        }
        if (wire < 0) wire = call_collector(kind);
        if (wire >= 0 && send(wire, report, strlen(report), MSG_NOSIGNAL) < 0 && kind == SOCK_STREAM)
            close(wire), wire = -1;
    }
    return unused;
}

static void *keep_writing(void *given) {
    int book = (int)(intptr_t)given;
    struct timespec next, now;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        char line[256];
        uint64_t number = atomic_load(&sequence) + 1;
        int size = snprintf(line, sizeof line, "%" PRIu64 " %s %s\n", number, instance, epoch);
        if (write(book, line, size) != size || fdatasync(book)) {
            fprintf(stderr, "number %" PRIu64 " could not be written: %s\n", number, strerror(errno));
            exit(1);  // silent from now on: what is not on the disk is not reported
        }
        atomic_store(&sequence, number);
        if ((next.tv_nsec += PERIOD_MS * 1000000L) >= 1000000000L) next.tv_nsec -= 1000000000L, next.tv_sec++;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec > next.tv_sec + 1) next = now;  // a slow disk is not caught up with in a burst
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
}

int main(void) {
    const char *name = getenv("WITNESS_INSTANCE"), *said = getenv("WITNESS_EPOCH"), *place = getenv("WITNESS_DATA");
    if (!said) said = getenv("HOLDFAST_EPOCH");
    if (place) folder = place;
    if (name) snprintf(instance, sizeof instance, "%s", name);
    else gethostname(instance, sizeof instance - 1);
    snprintf(epoch, sizeof epoch, "%llu", said ? strtoull(said, NULL, 10) : 0ULL);
    mkdir(folder, 0755);
    int book = open_book();
    mind_signals();
    find_collector();
    pthread_t writer, reporter;
    pthread_create(&writer, NULL, keep_writing, (void *)(intptr_t)book);
    if (*scheme) pthread_create(&reporter, NULL, keep_reporting, NULL);
    fprintf(stderr, "witness %s, epoch %s, goes on after %" PRIu64 "\n", instance, epoch, atomic_load(&sequence));
    serve(8080, answer);
}
