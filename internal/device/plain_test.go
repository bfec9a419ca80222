package device_test

import (
	"fmt"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

var sizes = []int{0, 1, 255, 256, 257, 4095, 4096, 4097, 1<<20 - 1, 1 << 20, 1<<20 + 1, 64 << 20}

// onDevice tells whether messages treat memory of a kind as that of a device.
func onDevice(kind mem.Kind) bool { return kind == mem.Device || kind == mem.Managed }

// TestPlainMessages sends and receives every kind of memory, in both directions at once,
// and counts what was staged.
func TestPlainMessages(t *testing.T) {
	c := mpitest.Pair(t)
	peer := 1 - c.Rank()
	for _, n := range sizes {
		for _, from := range kinds {
			for _, to := range kinds {
				name := fmt.Sprintf("%s to %s, %d bytes", from, to, n)
				ctx := mpitest.Context(t)
				a, b := newMemory(t, from, n), newMemory(t, to, n)
				a.fill(t, stream, n+c.Rank())
				before := mpicomm.CountDeviceTraffic()
				status, err := coro.Sendrecv(ctx, c, a.mem(), peer, 1, b.mem(), peer, 1)
				require.NoError(t, err, name)
				require.Equal(t, mpicomm.Status{Source: peer, Tag: 1, Count: n}, status, name)
				after := mpicomm.CountDeviceTraffic()
				b.requirePattern(t, ctx, stream, n+peer, n)
				want := before
				switch {
				case n == 0:
				case direct(t):
					for _, kind := range []mem.Kind{from, to} {
						if onDevice(kind) {
							want.Direct++
						}
					}
				default:
					if onDevice(from) {
						want.StagedOut += n
					}
					if onDevice(to) {
						want.StagedIn += n
					}
				}
				require.Equal(t, want, after, name)
				a.free(t)
				b.free(t)
			}
		}
	}
}
