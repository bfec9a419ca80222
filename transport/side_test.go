package transport_test

import (
	"context"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/transport"
	"github.com/stretchr/testify/require"
)

// TestMergedKeepsItsError shows that what a call's context has ended with does not
// change: who compares it with an earlier error would be misled.
func TestMergedKeepsItsError(t *testing.T) {
	mpitest.Alone(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	merged, end := transport.Merged(ctx)
	require.NoError(t, merged.Err())
	end(transport.ErrClosedHere)
	require.ErrorIs(t, merged.Err(), context.Canceled)
	<-ctx.Done()
	require.ErrorIs(t, merged.Err(), context.Canceled)
}
