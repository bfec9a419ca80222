package cmpi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDeviceMemory judges by what is known of real libraries: what each says of
// itself, and what it then does with device memory.
func TestDeviceMemory(t *testing.T) {
	ob1 := []string{"mca_pml_ob1", "mca_btl_self", "mca_btl_smcuda", "mca_btl_tcp", "libmca_common_cuda"}
	ucx := []string{"mca_pml_ucx", "libucp", "libuct_cma"}
	ucxCuda := append([]string{"libuct_cuda"}, ucx...)
	for name, test := range map[string]struct {
		e    evidence
		env  map[string]string
		able [3]bool // point-to-point, datatypes, collectives
		why  string  // of point-to-point
	}{
		"Open MPI with CUDA": {
			evidence{implementation: "openmpi", cuda: 1, opalCuda: 1, plugins: ob1},
			nil,
			[3]bool{true, true, false},
			"MPIX_Query_cuda_support says 1",
		},
		"without": {
			evidence{implementation: "openmpi", cuda: 0, opalCuda: 0, plugins: ob1},
			nil,
			[3]bool{},
			"not built with CUDA",
		},
		"no extensions": {
			evidence{implementation: "openmpi", cuda: -1, opalCuda: -1, plugins: ob1},
			nil,
			[3]bool{},
			"no MPIX_Query_cuda_support",
		},
		"turned off": {
			evidence{implementation: "openmpi", cuda: 1, opalCuda: 0, plugins: ob1},
			nil,
			[3]bool{},
			"opal_cuda_support is off",
		},
		"turned off in the environment": {
			evidence{implementation: "openmpi", cuda: 1, opalCuda: -1, plugins: ob1},
			map[string]string{"OMPI_MCA_opal_cuda_support": "false"},
			[3]bool{},
			"turns it off",
		},
		"the wrong btl": {
			evidence{implementation: "openmpi", cuda: 1, opalCuda: 1, plugins: []string{"mca_pml_ob1", "mca_btl_vader"}},
			nil,
			[3]bool{},
			"btl vader",
		},
		"built without plugins": {
			evidence{implementation: "openmpi", cuda: 1, opalCuda: 1},
			nil,
			[3]bool{true, true, false},
			"says 1",
		},
		"stock, UCX with CUDA": {
			evidence{implementation: "openmpi", cuda: 0, opalCuda: 0, plugins: ucxCuda},
			nil,
			[3]bool{true, false, false},
			"libuct_cuda",
		},
		"stock, UCX without": {
			evidence{implementation: "openmpi", cuda: 0, opalCuda: 0, plugins: ucx},
			nil,
			[3]bool{},
			"not built with CUDA",
		},
		"with CUDA, UCX without": {
			evidence{implementation: "openmpi", cuda: 1, opalCuda: 1, plugins: ucx},
			nil,
			[3]bool{},
			"has not loaded libuct_cuda",
		},
		"with CUDA and UCX": {
			evidence{implementation: "openmpi", cuda: 1, opalCuda: -1, plugins: ucxCuda},
			nil,
			[3]bool{true, true, false},
			"says 1",
		},
		"pml cm": {
			evidence{implementation: "openmpi", cuda: 1, opalCuda: 1, plugins: []string{"mca_pml_cm", "mca_mtl_ofi"}},
			nil,
			[3]bool{},
			"pml cm",
		},
		"MVAPICH2": {
			evidence{implementation: "mpich", version: "MVAPICH2-GDR 2.3.7", cuda: 1, gpu: -1},
			map[string]string{"MV2_USE_CUDA": "1"},
			[3]bool{true, true, false},
			"MV2_USE_CUDA=1",
		},
		"MVAPICH2, not asked for": {
			evidence{implementation: "mpich", version: "MVAPICH2-GDR 2.3.7", cuda: 1, gpu: -1},
			map[string]string{"MV2_USE_CUDA": "0"},
			[3]bool{},
			"MV2_USE_CUDA=1 is not set",
		},
		"MVAPICH2 without CUDA": {
			evidence{implementation: "mpich", version: "MVAPICH2 2.3.7", cuda: 0, gpu: -1},
			map[string]string{"MV2_USE_CUDA": "1"},
			[3]bool{},
			"not built with CUDA",
		},
		"MPICH with CUDA": {
			evidence{implementation: "mpich", cuda: -1, gpu: 1},
			nil,
			[3]bool{true, true, true},
			"MPIX_GPU_query_support says 1",
		},
		"MPICH, turned off": {
			evidence{implementation: "mpich", cuda: -1, gpu: 1},
			map[string]string{"MPIR_CVAR_ENABLE_GPU": "0"},
			[3]bool{},
			"MPIR_CVAR_ENABLE_GPU",
		},
		"MPICH without": {
			evidence{implementation: "mpich", cuda: -1, gpu: 0},
			nil,
			[3]bool{},
			"without CUDA",
		},
		"an MPICH that does not say": {
			evidence{implementation: "mpich", cuda: -1, gpu: -1},
			nil,
			[3]bool{},
			"no MPIX_GPU_query_support",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.e.env = func(name string) string { return test.env[name] }
			got := test.e.judge()
			require.Equal(t, test.able, [3]bool{got.PointToPoint.Able, got.Datatypes.Able, got.Collectives.Able})
			require.Contains(t, got.PointToPoint.Why, test.why)
			require.NotEmpty(t, got.Datatypes.Why)
			require.NotEmpty(t, got.Collectives.Why)
		})
	}
}
