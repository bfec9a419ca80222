package transport

import (
	"context"
	"fmt"
	"runtime/trace"
)

// region shows a call in an execution trace.
func region(ctx context.Context, call string, of fmt.Stringer) *trace.Region {
	r := trace.StartRegion(ctx, call)
	if trace.IsEnabled() {
		trace.Log(ctx, "mpi", of.String())
	}
	return r
}
