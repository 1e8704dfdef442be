/* A wire that delays frames: everything that comes in at one interface goes out at the other, so many microseconds later.
 *
 * Usage: wire FIRST SECOND DELAY_US
 *
 * Frames travel with their header for offloads (PACKET_VNET_HDR), so that checksums which the kernel has not filled in
 * yet, and large segments, arrive as they were sent. Says "wired" when it is. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

static int end(const char *name)
{
    int one = 1, room = 8 << 20;
    int wire = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
    at.sll_ifindex = (int)if_nametoindex(name);
    if (wire < 0 || !at.sll_ifindex
        || setsockopt(wire, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one)
        || setsockopt(wire, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one)
        || setsockopt(wire, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room)
        || bind(wire, (struct sockaddr *)&at, sizeof at)) {
        perror(name);
        exit(1);
    }
    return wire;
}

/* Frames on their way, oldest first; each with the time at which it arrives. */
enum { MOST = 4096 };
static struct delayed {
    long long due_ns;
    int to;
    size_t bytes;
    char *frame;
} queue[MOST];
static size_t first, count;

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void release(struct pollfd *ends)
{
    while (count && queue[first].due_ns <= now_ns()) {
        struct delayed *one = &queue[first];
        /* A full queue behind it loses frames as that of a switch would. */
        if (send(ends[one->to].fd, one->frame, one->bytes, 0) < 0)
            perror("send");
        free(one->frame);
        first = (first + 1) % MOST;
        count--;
    }
}

static void delay(int to, const char *frame, size_t bytes, long long ns)
{
    struct delayed *one = &queue[(first + count) % MOST];
    char *copy = malloc(bytes);
    if (count == MOST || !copy) {
        free(copy);
        return;
    }
    memcpy(copy, frame, bytes);
    *one = (struct delayed){ now_ns() + ns, to, bytes, copy };
    count++;
}

int main(int argc, char **argv)
{
    static char frame[1 << 17];
    if (argc != 4) {
        fprintf(stderr, "wire: needs two interfaces and a delay\n");
        return 2;
    }
    struct pollfd ends[2] = { { end(argv[1]), POLLIN, 0 }, { end(argv[2]), POLLIN, 0 } };
    long long delay_ns = atoll(argv[3]) * 1000;
    puts("wired");
    fflush(stdout);
    for (;;) {
        struct timespec wait = { 0, 0 };
        if (count) {
            long long left = queue[first].due_ns - now_ns();
            wait.tv_nsec = left > 0 ? left % 1000000000LL : 0;
        }
        if (ppoll(ends, 2, count ? &wait : NULL, NULL) < 0)
            return 1;
        release(ends);
        for (int from = 0; from < 2; from++) {
            for (int burst = 0; burst < 64; burst++) {
                ssize_t bytes = recv(ends[from].fd, frame, sizeof frame, MSG_DONTWAIT);
                if (bytes <= 0)
                    break;
                delay(1 - from, frame, (size_t)bytes, delay_ns);
            }
        }
    }
}
