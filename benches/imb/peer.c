/* The kernels of `pipebench imb` for an MPI library: one clock round all repetitions, the time of the slowest rank. Words: KERNEL BYTES
   REPETITIONS, as often as one likes. Prints a line for each: kernel, bytes, microseconds of a repetition. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static char *out, *into;

static void repeat(const char *kernel, int bytes, int number) {
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    if (!strcmp(kernel, "PingPong")) {
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(into, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(into, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    } else if (!strcmp(kernel, "PingPing")) {
        if (rank < 2) {
            MPI_Request request;
            MPI_Isend(out, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &request);
            MPI_Recv(into, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else if (!strcmp(kernel, "Sendrecv")) {
        MPI_Sendrecv(out, bytes, MPI_BYTE, right, 1, into, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(kernel, "Exchange")) {
        MPI_Request requests[2];
        MPI_Isend(out, bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out + bytes, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Recv(into, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(into + bytes, bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (!strcmp(kernel, "Bcast")) {
        MPI_Bcast(number % size == rank ? out : into, bytes, MPI_BYTE, number % size, MPI_COMM_WORLD);
    } else if (!strcmp(kernel, "Allreduce")) {
        MPI_Allreduce(out, into, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (!strcmp(kernel, "Alltoall")) {
        MPI_Alltoall(out, bytes, MPI_BYTE, into, bytes, MPI_BYTE, MPI_COMM_WORLD);
    } else if (!strcmp(kernel, "Barrier")) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        fprintf(stderr, "%s is no kernel\n", kernel);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

int main(int argc, char **argv) {
    size_t largest = 4;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int word = 1; word + 2 < argc; word += 3)
        if ((size_t)atol(argv[word + 1]) > largest)
            largest = atol(argv[word + 1]);
    size_t room = largest * (size > 2 ? size : 2);
    out = malloc(room);
    into = malloc(room);
    memset(into, 0, room);
    for (size_t item = 0; item < room / 4; item++)
        ((float *)out)[item] = 0.1f * (rank + 1) + item;
    for (int word = 1; word + 2 < argc; word += 3) {
        int bytes = atoi(argv[word + 1]), repetitions = atoi(argv[word + 2]);
        for (int number = 0; number < 10; number++)
            repeat(argv[word], bytes, number);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        double began = MPI_Wtime();
        for (int number = 0; number < repetitions; number++)
            repeat(argv[word], bytes, number);
        double own = (MPI_Wtime() - began) / repetitions, slowest;
        MPI_Reduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (!strcmp(argv[word], "PingPong"))
            slowest /= 2;
        if (rank == 0)
            printf("%s %d %.4f\n", argv[word], bytes, slowest * 1e6);
    }
    MPI_Finalize();
    return 0;
}
