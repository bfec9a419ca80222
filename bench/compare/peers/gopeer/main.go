// Gopeer is the peer of bench/compare that is written in Go: it measures one way to
// send messages between two processes, and prints what it has measured as lines of
// JSON. The README of the folder above says which arguments and variables it takes.
//
//	mpirun -n 2 gopeer coro latency:1 throughput:4096:1:64
//	COMPARE_DIR=/tmp/x COMPARE_RANK=0 gopeer tcp latency:1 &
//	COMPARE_DIR=/tmp/x COMPARE_RANK=1 gopeer tcp latency:1
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// carrier is a way to send messages between two processes, after it has been opened.
type carrier interface {
	// first tells whether this is the process that measures and prints.
	first() bool
	// environment is what a reader of the figures should know.
	environment() map[string]string
	// conversation returns one of many that go on at the same time. Both
	// processes open them in the same order, from 0 on.
	conversation(i int) (conversation, error)
	close() error
}

// conversation is what one goroutine has with one of the other process.
type conversation interface {
	send(b []byte) error
	recv(b []byte) error
	// window returns what sends or receives a message n times, with as many in
	// flight as the carrier can.
	window(b []byte, n int, sends bool) func() error
	// message returns what sends or receives a message of many frames.
	message(frames [][]byte, sends bool) func() error
}

var ways = map[string]func(ctx context.Context) (carrier, error){
	"coro":    openCoro,
	"conn":    func(ctx context.Context) (carrier, error) { return openConn(ctx) },
	"netconn": openNetConn,
	"tcp":     func(ctx context.Context) (carrier, error) { return openSocket(ctx, "tcp") },
	"unix":    func(ctx context.Context) (carrier, error) { return openSocket(ctx, "unix") },
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gopeer:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || ways[args[0]] == nil {
		var names []string
		for name := range ways {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Errorf("usage: gopeer %s KIND:SIZE:FRAMES:N", strings.Join(names, "|"))
	}
	var items []item
	for _, arg := range args[1:] {
		i, err := parseItem(arg)
		if err != nil {
			return err
		}
		items = append(items, i)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := ways[args[0]](ctx)
	if err != nil {
		return err
	}
	d, err := newDriver(c)
	if err != nil {
		return err
	}
	if c.first() {
		if err := printLine(map[string]any{"kind": "environment", "environment": c.environment()}); err != nil {
			return err
		}
	}
	for _, i := range items {
		if err := d.measure(i); err != nil {
			return fmt.Errorf("%s: %w", i, err)
		}
	}
	return c.close()
}

// printLine writes a line in one piece: launchers mix those of several processes.
func printLine(value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(line, '\n'))
	return err
}
