package cuda_test

import (
	"testing"

	"github.com/mpi4go/mpi4go/internal/cudasim"
)

func TestMain(m *testing.M) { cudasim.Main(m) }
