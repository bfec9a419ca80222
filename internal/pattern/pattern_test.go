package pattern

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { cudasim.Main(m) }

func open(t *testing.T) (*gpu.Device, *gpu.Stream, *Kernels) {
	d, err := gpu.OpenDevice(0)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	k, err := Load(d)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Destroy())
		require.NoError(t, k.Unload())
		require.NoError(t, d.Close())
	})
	return d, s, k
}

func TestFillAndVerify(t *testing.T) {
	ctx := context.Background()
	d, s, k := open(t)
	for _, n := range []int{0, 1, 7, 8, 9, 1000, 1 << 20} {
		whole, err := d.Alloc(n + 3)
		require.NoError(t, err)
		b, err := whole.Slice(1, n+1) // at an odd address
		require.NoError(t, err)
		require.NoError(t, k.Fill(s, b, 42))
		bytes := make([]byte, n)
		require.NoError(t, gpu.Memcpy(ctx, s, bytes, b))
		for i := range bytes {
			require.Equal(t, Byte(42, i), bytes[i])
		}
		wrong, _, err := k.Verify(ctx, s, b, 42)
		require.NoError(t, err)
		require.Zero(t, wrong)
		if n >= 1000 {
			bytes[500] ^= 1
			bytes[999] ^= 1
			require.NoError(t, gpu.Memcpy(ctx, s, b, bytes))
			wrong, first, err := k.Verify(ctx, s, b, 42)
			require.NoError(t, err)
			require.Equal(t, 2, wrong)
			require.Equal(t, 500, first)
			wrong, _, err = k.Verify(ctx, s, b, 43)
			require.NoError(t, err)
			require.Greater(t, wrong, n/2)
		}
		require.NoError(t, whole.Free())
	}
}

func TestOnTheHost(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 1001} {
		b := make([]byte, n)
		Fill(b, 42)
		for i := range b {
			require.Equal(t, Byte(42, i), b[i])
		}
		wrong, _ := Verify(b, 42)
		require.Zero(t, wrong)
		if n > 9 {
			b[500] ^= 1
			b[1000] ^= 1
			wrong, first := Verify(b, 42)
			require.Equal(t, []int{2, 500}, []int{wrong, first})
		}
	}
}

func TestVerifyWithoutPatience(t *testing.T) {
	d, s, k := open(t)
	b, err := d.Alloc(10)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err = k.Verify(ctx, s, b, 1)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, b.Free())
}

// TestKernelsFail shows that each failure is an error, and leaves nothing.
func TestKernelsFail(t *testing.T) {
	cudasim.Needed(t)
	d, err := gpu.OpenDevice(0)
	require.NoError(t, err)
	defer d.Close()
	for _, call := range []string{"cuModuleLoadData:1", "cuModuleGetFunction:1", "cuModuleGetFunction:2", "cuMemAlloc_v2:1"} {
		cudasim.Fail(t, call)
		_, err := Load(d)
		name, _, _ := strings.Cut(call, ":")
		require.ErrorContains(t, err, name)
		require.Zero(t, cudasim.Stats()["modules"])
	}
	cudasim.Fail(t, "")
	k, err := Load(d)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	b, err := d.Alloc(10)
	require.NoError(t, err)
	cudasim.Fail(t, "cuLaunchKernel:1,cuLaunchKernel:2")
	var failed *gpu.Error
	require.ErrorAs(t, k.Fill(s, b, 1), &failed)
	require.Equal(t, "cuLaunchKernel", failed.Call)
	_, _, err = k.Verify(context.Background(), s, b, 1)
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "cuLaunchKernel", failed.Call)
	require.NoError(t, errors.Join(b.Free(), s.Destroy(), k.Unload()))
}

// TestAssembles shows that NVIDIA's assembler takes the kernels for several devices.
func TestAssembles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", ".cache", "cuda", "*", "nvidia", "*", "bin", "ptxas"))
	require.NoError(t, err)
	if path, err := exec.LookPath("ptxas"); err == nil {
		files = append(files, path)
	}
	if len(files) == 0 {
		t.Skip("needs ptxas, which make cuda-headers fetches")
	}
	for _, ptxas := range files {
		for _, architecture := range []string{"sm_75", "sm_80", "sm_90"} {
			text, err := exec.Command(ptxas, "--warning-as-error", "-arch="+architecture, "-o", filepath.Join(t.TempDir(), "k"), "kernels.ptx").CombinedOutput()
			require.NoError(t, err, string(text))
		}
	}
}

// TestPTX runs the PTX text itself, with an interpreter of the instructions that it
// uses, because the simulated driver runs C in its place.
func TestPTX(t *testing.T) {
	const n, blocks, width = 100, 2, 16
	memory := make([]byte, n+16)
	each := func(kernel string, seed uint64) {
		for block := range uint64(blocks) {
			for thread := range uint64(width) {
				m := machine{memory: memory, registers: map[string]uint64{
					"[address]": 0, "[length]": n, "[seed]": seed, "[result]": n,
					"%ctaid.x": block, "%ntid.x": width, "%tid.x": thread, "%nctaid.x": blocks,
				}}
				require.NoError(t, m.run(body(kernel)))
			}
		}
	}
	each("mpi4go_fill", 7)
	for i := range n {
		require.Equal(t, Byte(7, i), memory[i])
	}
	reset := func() { copy(memory[n:], append(make([]byte, 8), 255, 255, 255, 255, 255, 255, 255, 255)) }
	reset()
	each("mpi4go_verify", 7)
	require.Equal(t, append(make([]byte, 8), 255, 255, 255, 255, 255, 255, 255, 255), memory[n:])
	memory[33]++
	memory[44]++
	each("mpi4go_verify", 7)
	require.Equal(t, []byte{2, 0, 0, 0, 0, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0}, memory[n:])
}

// body is the text between the braces of a kernel.
func body(kernel string) []string {
	_, rest, _ := strings.Cut(ptx, ".entry "+kernel+"(")
	_, rest, _ = strings.Cut(rest, "{")
	text, _, _ := strings.Cut(rest, "\n}")
	return strings.Split(text, "\n")
}

// machine is one thread.
type machine struct {
	memory    []byte
	registers map[string]uint64
}

func (m *machine) value(operand string) uint64 {
	if v, err := strconv.ParseUint(operand, 0, 64); err == nil {
		return v
	}
	return m.registers[operand]
}

// at is the memory that an operand such as [%p+8] refers to.
func (m *machine) at(operand string) []byte {
	register, offset, _ := strings.Cut(strings.Trim(operand, "[]"), "+")
	return m.memory[m.registers[register]+m.value(offset):]
}

func (m *machine) run(lines []string) error {
	for at, steps := 0, 0; at < len(lines); at, steps = at+1, steps+1 {
		if steps > 1e6 {
			return errors.New("it does not end")
		}
		line, _, _ := strings.Cut(lines[at], "//")
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, ".reg") || strings.HasSuffix(line, ":") {
			continue
		}
		if predicate, rest, ok := strings.Cut(line, " "); ok && predicate[0] == '@' {
			if m.registers[predicate[1:]] == 0 {
				continue
			}
			line = rest
		}
		operation, rest, _ := strings.Cut(strings.TrimSuffix(line, ";"), " ")
		o := strings.Split(rest, ", ")
		arg := func(i int) uint64 { return m.value(o[i]) }
		boolean := func(b bool) uint64 {
			if b {
				return 1
			}
			return 0
		}
		switch operation {
		case "ret":
			return nil
		case "bra":
			for at = 0; strings.TrimSpace(lines[at]) != o[0]+":"; at++ {
			}
		case "ld.param.u64", "mov.u32", "cvta.to.global.u64", "cvt.u64.u32", "cvt.u64.u16":
			m.registers[o[0]] = arg(1)
		case "cvt.u32.u64":
			m.registers[o[0]] = arg(1) & 0xFFFFFFFF
		case "cvt.u16.u64":
			m.registers[o[0]] = arg(1) & 0xFFFF
		case "add.u64":
			m.registers[o[0]] = arg(1) + arg(2)
		case "mul.lo.u64", "mul.wide.u32":
			m.registers[o[0]] = arg(1) * arg(2)
		case "shr.u64":
			m.registers[o[0]] = arg(1) >> arg(2)
		case "shl.b32":
			m.registers[o[0]] = arg(1) << arg(2) & 0xFFFFFFFF
		case "xor.b64":
			m.registers[o[0]] = arg(1) ^ arg(2)
		case "and.b32", "and.b64":
			m.registers[o[0]] = arg(1) & arg(2)
		case "setp.ge.u64":
			m.registers[o[0]] = boolean(arg(1) >= arg(2))
		case "setp.eq.u64":
			m.registers[o[0]] = boolean(arg(1) == arg(2))
		case "st.global.u8":
			m.at(o[0])[0] = byte(arg(1))
		case "ld.global.u8":
			m.registers[o[0]] = uint64(m.at(o[1])[0])
		case "red.global.add.u64", "red.global.min.u64":
			word := m.at(o[0])[:8]
			old := uint64(0)
			for i := range word {
				old |= uint64(word[i]) << (8 * i)
			}
			old = map[bool]uint64{true: old + arg(1), false: min(old, arg(1))}[strings.Contains(operation, "add")]
			for i := range word {
				word[i] = byte(old >> (8 * i))
			}
		default:
			return fmt.Errorf("the test does not know %s", line)
		}
	}
	return errors.New("there is no ret")
}
