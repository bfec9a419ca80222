package main

import (
	"context"
	"net"

	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/transport"
)

// service is the one that the second process dials.
const service = "compare"

// connJob sends messages over connections of package transport, one for each
// conversation.
type connJob struct {
	mpiJob
	listener *transport.Listener
	conns    []*transport.Conn
}

func openConn(ctx context.Context) (*connJob, error) {
	j, err := initMPI(ctx)
	if err != nil {
		return nil, err
	}
	c := &connJob{mpiJob: j}
	if j.first() {
		c.listener, err = transport.Listen(ctx, transport.Addr{Rank: transport.ThisRank, Service: service}.String(), transport.Config{})
	}
	return c, err
}

func (j *connJob) connect() (*transport.Conn, error) {
	var conn *transport.Conn
	var err error
	if j.first() {
		conn, err = j.listener.Accept(j.ctx)
	} else {
		conn, err = transport.Dial(j.ctx, transport.Addr{Rank: j.peer, Service: service}.String(), transport.Config{})
	}
	if err == nil {
		j.conns = append(j.conns, conn)
	}
	return conn, err
}

func (j *connJob) conversation(i int) (conversation, error) {
	for len(j.conns) <= i {
		if _, err := j.connect(); err != nil {
			return nil, err
		}
	}
	return connConversation{j.ctx, j.conns[i]}, nil
}

func (j *connJob) close() error {
	for _, conn := range j.conns {
		if err := conn.Close(); err != nil {
			return err
		}
	}
	if j.listener != nil {
		if err := j.listener.Close(); err != nil {
			return err
		}
	}
	return j.mpiJob.close()
}

type connConversation struct {
	ctx  context.Context
	conn *transport.Conn
}

func (c connConversation) send(b []byte) error {
	one := [1]mem.Buffer{mem.Of(b)}
	return c.conn.SendMessage(c.ctx, one[:])
}

func (c connConversation) recv(b []byte) error {
	one := [1]mem.Buffer{mem.Of(b)}
	return c.conn.RecvMessageInto(c.ctx, one[:])
}

func (c connConversation) window(b []byte, n int, sends bool) func() error {
	one := c.recv
	if sends {
		one = c.send
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

func (c connConversation) message(frames [][]byte, sends bool) func() error {
	list := buffers(frames)
	if sends {
		return func() error { return c.conn.SendMessage(c.ctx, list) }
	}
	return func() error { return c.conn.RecvMessageInto(c.ctx, list) }
}

// netConnJob is a stream of bytes over each connection.
type netConnJob struct {
	*connJob
	connector
}

func openNetConn(ctx context.Context) (carrier, error) {
	c, err := openConn(ctx)
	if err != nil {
		return nil, err
	}
	j := &netConnJob{connJob: c}
	j.open = func() (net.Conn, error) {
		conn, err := c.connect()
		if err != nil {
			return nil, err
		}
		return conn.NetConn(), nil
	}
	return j, nil
}

func (j *netConnJob) conversation(i int) (conversation, error) { return j.connector.conversation(i) }
