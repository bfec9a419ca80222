package transport_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/mpi4go/mpi4go/transport"
)

// Rank 0 answers messages of rank 1. Run it with two ranks: mpirun -n 2.
func Example() {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if mpicomm.World().Rank() == 0 {
		l, err := transport.Listen(ctx, "mpi://*/greetings", transport.Config{})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer l.Close()
		conn, err := l.Accept(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer conn.Close()
		frames, err := conn.RecvMessage(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = conn.SendMessage(ctx, frames)
	} else {
		conn, err := transport.Dial(ctx, "mpi://0/greetings", transport.Config{ConnectTimeout: time.Minute})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer conn.Close()
		_ = conn.SendMessage(ctx, []mem.Buffer{mem.Of([]byte("hello")), mem.Of([]float64{1, 2, 3})})
		frames, err := conn.RecvMessage(ctx)
		fmt.Println(len(frames), err)
	}
	if err := mpicomm.Finalize(); err != nil {
		fmt.Println(err)
	}
}

// A receive into memory outside the Go heap.
func ExampleConn_RecvMessageAlloc() {
	receive := func(ctx context.Context, conn *transport.Conn) ([]mem.Buffer, error) {
		return conn.RecvMessageAlloc(ctx, func(in []coro.FrameInfo) ([]mem.Buffer, error) {
			frames := make([]mem.Buffer, len(in))
			for i, f := range in {
				block, err := mem.Alloc(f.Len)
				if err != nil {
					return nil, err
				}
				frames[i] = block.Buffer()
			}
			return frames, nil
		})
	}
	_ = receive
}

// HTTP between two ranks.
func ExampleListener_NetListener() {
	serve := func(ctx context.Context) error {
		l, err := transport.Listen(ctx, "mpi://*/http", transport.Config{})
		if err != nil {
			return err
		}
		return http.Serve(l.NetListener(), http.DefaultServeMux)
	}
	get := func(ctx context.Context) ([]byte, error) {
		client := http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return transport.DialNet(ctx, "mpi://0/http", transport.Config{})
			},
		}}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://rank0/", nil)
		if err != nil {
			return nil, err
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		return io.ReadAll(response.Body)
	}
	_, _ = serve, get
}
