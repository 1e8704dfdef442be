/* A wire that loses frames: everything that comes in at one interface goes out at the other, but for a share of it.
 *
 * Usage: wire FIRST SECOND LOST_TOWARDS_SECOND LOST_TOWARDS_FIRST
 *
 * Frames travel with their header for offloads (PACKET_VNET_HDR), so that checksums which the kernel has not filled in
 * yet, and large segments, arrive as they were sent. Says "wired" when it is. */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

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

int main(int argc, char **argv)
{
    static char frame[1 << 17];
    if (argc != 5) {
        fprintf(stderr, "wire: needs two interfaces and two shares\n");
        return 2;
    }
    struct pollfd ends[2] = { { end(argv[1]), POLLIN, 0 }, { end(argv[2]), POLLIN, 0 } };
    double lost[2] = { atof(argv[3]), atof(argv[4]) };
    srand48(1);
    puts("wired");
    fflush(stdout);
    for (;;) {
        if (poll(ends, 2, -1) < 0)
            return 1;
        for (int from = 0; from < 2; from++) {
            for (int burst = 0; burst < 64; burst++) {
                ssize_t bytes = recv(ends[from].fd, frame, sizeof frame, MSG_DONTWAIT);
                if (bytes <= 0)
                    break;
                /* A full queue behind it loses frames as that of a switch would. */
                if (drand48() >= lost[from] && send(ends[1 - from].fd, frame, (size_t)bytes, 0) < 0)
                    continue;
            }
        }
    }
}
