package mem_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mpi4go/mpi4go/mem"
	"github.com/stretchr/testify/require"
)

func TestAlloc(t *testing.T) {
	for _, n := range []int{1, 100, os.Getpagesize(), 1 << 20} {
		block, err := mem.Alloc(n)
		require.NoError(t, err)
		require.Len(t, block.Bytes(), n)
		for _, b := range block.Bytes() {
			require.Zero(t, b)
		}
		block.Bytes()[n-1] = 7
		buf := block.Buffer()
		require.Equal(t, n, buf.Len())
		require.Equal(t, mem.Host, buf.Kind())
		require.Zero(t, buf.Addr()%uintptr(os.Getpagesize()), "aligned to a page")
		require.Equal(t, byte(7), buf.Bytes()[n-1])
		require.NoError(t, block.Free())
	}
}

func TestAllocOfNothing(t *testing.T) {
	block, err := mem.Alloc(0)
	require.NoError(t, err)
	require.Empty(t, block.Bytes())
	require.Zero(t, block.Buffer().Len())
	require.NoError(t, block.Free())
	require.ErrorIs(t, block.Free(), mem.ErrFreed)
}

func TestAllocRefuses(t *testing.T) {
	_, err := mem.Alloc(-1)
	require.ErrorContains(t, err, "mem.Alloc: -1 bytes")
	_, err = mem.Alloc(1 << 62)
	require.ErrorContains(t, err, "mem.Alloc")
	require.True(t, errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EINVAL), "the system's reason: %v", err)
}

func TestFree(t *testing.T) {
	block, err := mem.Alloc(10)
	require.NoError(t, err)
	require.NoError(t, block.Free())
	require.ErrorIs(t, block.Free(), mem.ErrFreed)
	require.ErrorIs(t, block.Free(), mem.ErrFreed)
	require.PanicsWithValue(t, "mem.Block.Bytes: the block was freed", func() { block.Bytes() })
	require.Panics(t, func() { block.Buffer() })
}

// TestBlockOutlivesItsVariable shows that the garbage collector does not free
// the memory of a block, nor let the block go while a buffer refers to it.
func TestBlockOutlivesItsVariable(t *testing.T) {
	buf := func() mem.Buffer {
		block, err := mem.Alloc(1 << 16)
		require.NoError(t, err)
		block.Bytes()[5] = 9
		return block.Buffer().Slice(5, 6)
	}()
	for range 3 {
		runtime.GC()
	}
	require.Equal(t, []byte{9}, buf.Bytes())
}

// TestAllocInHugePages looks up what the kernel was asked for: "hg" among the flags of the
// mapping, which is in MADV_HUGEPAGE's manual page and proc(5).
func TestAllocInHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil {
		t.Skip("this kernel has no transparent huge pages")
	}
	for n, want := range map[int]bool{2<<20 - 1: false, 2 << 20: true, 5 << 20: true} {
		block, err := mem.Alloc(n)
		require.NoError(t, err)
		require.Equal(t, want, asksForHugePages(t, uint64(block.Buffer().Addr())), "%d bytes", n)
		require.NoError(t, block.Free())
	}
}

// asksForHugePages reads the flags of the mapping at an address.
func asksForHugePages(t *testing.T, addr uint64) bool {
	maps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	inside := false
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= addr && addr < to
		}
		if flags, found := strings.CutPrefix(line, "VmFlags:"); found && inside {
			return slices.Contains(strings.Fields(flags), "hg")
		}
	}
	t.Fatalf("no mapping at %#x", addr)
	return false
}
