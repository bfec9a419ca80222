package main

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// sums is the service
//
//	service Sums {
//	  rpc Square(google.protobuf.Int64Value) returns (google.protobuf.Int64Value);
//	  rpc Running(stream google.protobuf.Int64Value) returns (stream google.protobuf.Int64Value);
//	}
//
// of package sums. What protoc would generate of it is written by hand, so that the
// example needs no protoc.
type sums struct{}

var sumsService = grpc.ServiceDesc{
	ServiceName: "sums.Sums",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Square",
		Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.Int64Value)
			if err := decode(in); err != nil {
				return nil, err
			}
			return srv.(sums).square(in.Value), nil
		},
	}},
	Streams: []grpc.StreamDesc{{
		StreamName: "Running", ServerStreams: true, ClientStreams: true,
		Handler: func(srv any, stream grpc.ServerStream) error { return srv.(sums).running(stream) },
	}},
}

func (sums) square(x int64) *wrapperspb.Int64Value { return wrapperspb.Int64(x * x) }

// running answers each number with the sum so far.
func (sums) running(stream grpc.ServerStream) error {
	var sum int64
	for {
		in := new(wrapperspb.Int64Value)
		if err := stream.RecvMsg(in); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		sum += in.Value
		if err := stream.SendMsg(wrapperspb.Int64(sum)); err != nil {
			return err
		}
	}
}
