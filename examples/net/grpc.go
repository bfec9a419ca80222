package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/mpi4go/mpi4go/transport"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// serveGRPC serves the service of sums.go until the clients have ended.
func serveGRPC(ctx context.Context) error {
	l, err := transport.Listen(ctx, address("grpc"), transport.Config{})
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	s.RegisterService(&sumsService, sums{})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l.NetListener()) }()
	if err := clientsDone(ctx); err != nil {
		return err
	}
	s.GracefulStop()
	return <-ended
}

// callGRPC makes a unary call, and one that streams in both directions.
func callGRPC(ctx context.Context) error {
	// The scheme passthrough hands the address to the dialer as it is.
	client, err := grpc.NewClient("passthrough:///"+address("grpc"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return transport.DialNet(ctx, addr, transport.Config{})
		}))
	if err != nil {
		return err
	}
	if err := square(ctx, client); err != nil {
		return err
	}
	if err := running(ctx, client); err != nil {
		return err
	}
	if err := client.Close(); err != nil {
		return err
	}
	return clientsDone(ctx)
}

func square(ctx context.Context, client *grpc.ClientConn) error {
	answer := new(wrapperspb.Int64Value)
	if err := client.Invoke(ctx, "/sums.Sums/Square", wrapperspb.Int64(12), answer); err != nil {
		return err
	}
	fmt.Printf("grpc: the square of 12 is %d\n", answer.Value)
	return nil
}

// running sends the numbers 1 to 1000, and receives the sum so far after each.
func running(ctx context.Context, client *grpc.ClientConn) error {
	stream, err := client.NewStream(ctx, &sumsService.Streams[0], "/sums.Sums/Running")
	if err != nil {
		return err
	}
	const numbers = 1000
	sent := make(chan error, 1)
	go func() {
		var err error
		for i := int64(1); i <= numbers && err == nil; i++ {
			err = stream.SendMsg(wrapperspb.Int64(i))
		}
		sent <- errors.Join(err, stream.CloseSend())
	}()
	sum, n := new(wrapperspb.Int64Value), 0
	for ; ; n++ {
		if err := stream.RecvMsg(sum); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	fmt.Printf("grpc: %d sums, the last is %d\n", n, sum.Value)
	return <-sent
}
