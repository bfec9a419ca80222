package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// connector makes the connections of a carrier of streams, one for each conversation.
type connector struct {
	open  func() (net.Conn, error)
	conns []net.Conn
}

func (c *connector) conversation(i int) (conversation, error) {
	for len(c.conns) <= i {
		conn, err := c.open()
		if err != nil {
			return nil, err
		}
		c.conns = append(c.conns, conn)
	}
	return stream{c.conns[i]}, nil
}

// stream is a conversation over a net.Conn. Both sides know the lengths, so nothing
// but the bytes of the messages travels.
type stream struct{ net.Conn }

func (s stream) send(b []byte) error {
	_, err := s.Write(b)
	return err
}

func (s stream) recv(b []byte) error {
	_, err := io.ReadFull(s, b)
	return err
}

func (s stream) window(b []byte, n int, sends bool) func() error {
	one := s.recv
	if sends {
		one = s.send
	}
	return func() error {
		for range n {
			if err := one(b); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s stream) message(frames [][]byte, sends bool) func() error {
	return func() error {
		if sends {
			list := net.Buffers(slices.Clone(frames)) // it is consumed
			_, err := list.WriteTo(s.Conn)
			return err
		}
		for _, f := range frames {
			if err := s.recv(f); err != nil {
				return err
			}
		}
		return nil
	}
}

// sockets is Go's own TCP or Unix sockets.
type sockets struct {
	connector
	network  string
	isFirst  bool
	listener net.Listener
}

func openSocket(ctx context.Context, network string) (carrier, error) {
	rank, err := strconv.Atoi(os.Getenv("COMPARE_RANK"))
	dir := os.Getenv("COMPARE_DIR")
	if err != nil || dir == "" {
		return nil, fmt.Errorf("COMPARE_RANK and COMPARE_DIR are not set")
	}
	s := &sockets{network: network, isFirst: rank == 0}
	file := filepath.Join(dir, "address")
	if !s.isFirst {
		address, err := waitFor(ctx, file)
		s.open = func() (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, address) }
		return s, err
	}
	at := "127.0.0.1:0"
	if network == "unix" {
		at = filepath.Join(dir, "socket")
	}
	if s.listener, err = new(net.ListenConfig).Listen(ctx, network, at); err != nil {
		return nil, err
	}
	s.open = s.listener.Accept
	if err := os.WriteFile(file+".new", []byte(s.listener.Addr().String()), 0o600); err != nil {
		return nil, err
	}
	return s, os.Rename(file+".new", file)
}

// waitFor returns the contents of a file as soon as there is one.
func waitFor(ctx context.Context, file string) (string, error) {
	for {
		contents, err := os.ReadFile(file)
		if !os.IsNotExist(err) {
			return string(contents), err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (s *sockets) first() bool { return s.isFirst }

func (s *sockets) close() error {
	if s.listener != nil {
		return s.listener.Close()
	}
	return nil
}

func (s *sockets) environment() map[string]string {
	return map[string]string{"go": runtime.Version(), "transport": s.network, "GOMAXPROCS": strconv.Itoa(runtime.GOMAXPROCS(0))}
}
