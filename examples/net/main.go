// Net runs programs that know package net between the ranks of a job: only their
// listeners and dialers are of package transport. Rank 0 is the server, all others are
// clients. Run it with mpirun -n 2, and what to run as its argument: http, tls or grpc.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/mpi4go/mpi4go/transport"
)

// program is what the ranks do.
type program struct {
	serve func(ctx context.Context) error // until the clients have ended
	call  func(ctx context.Context) error
}

var programs = map[string]program{
	"http": {serveHTTP, callHTTP},
	"tls":  {serveTLS, callTLS},
	"grpc": {serveGRPC, callGRPC},
}

// The peer of every client.
const server = 0

func main() {
	var p program
	known := false
	if len(os.Args) == 2 {
		p, known = programs[os.Args[1]]
	}
	if !known {
		fmt.Fprintln(os.Stderr, "usage: mpirun -n 2 net http|tls|grpc")
		os.Exit(2)
	}
	if err := run(p); err != nil {
		log.Fatal(err)
	}
}

// run is a rank's part in a program.
func run(p program) error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	work := p.call
	if mpicomm.World().Rank() == server {
		work = p.serve
	}
	if err := work(context.Background()); err != nil {
		log.Print(err)
		mpicomm.Abort(1)
	}
	return mpicomm.Finalize()
}

// address of a service of the server.
func address(service string) string {
	return transport.Addr{Rank: server, Service: service}.String()
}

// clientsDone returns when all ranks have called it: the clients after their last
// call, and the server while it serves.
func clientsDone(ctx context.Context) error {
	return mpicomm.World().Barrier(ctx)
}

// send and receive pass what a client has to know to it, by plain messages.
func send(ctx context.Context, to int, what []byte) error {
	return coro.Send(ctx, mpicomm.World(), what, to, 1)
}

func receive(ctx context.Context) ([]byte, error) {
	what, _, err := coro.RecvAlloc[byte](ctx, mpicomm.World(), server, 1)
	return what, err
}
