// The programs of this folder need gRPC: they are a module of their own so that users of
// the library do not see it.
module github.com/mpi4go/mpi4go/examples/net

go 1.26.0

replace github.com/mpi4go/mpi4go => ../..

require (
	github.com/mpi4go/mpi4go v0.0.0
	github.com/stretchr/testify v1.12.1
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)
