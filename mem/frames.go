package mem

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Framer is a type that says where its bytes are, such as a wrapper of an Arrow
// buffer. The memory stays as it is for as long as the Buffer exists.
type Framer interface{ Frame() Buffer }

// Frames refers to the memory of values, none of which is copied. A value is a
// slice of a fixed-size type without pointers (numbers, or structs and arrays of
// them), a string, which must only be sent, a Buffer, or a [Framer].
//
// The error names the value that has no contiguous memory of its own, and says
// what to do instead.
func Frames(values ...any) ([]Buffer, error) {
	frames := make([]Buffer, len(values))
	for i, v := range values {
		var err error
		if frames[i], err = frame(v); err != nil {
			return nil, fmt.Errorf("mem.Frames: value %d: %w", i, err)
		}
	}
	return frames, nil
}

func frame(v any) (Buffer, error) {
	switch v := v.(type) {
	case []byte:
		return Of(v), nil
	case Buffer:
		return v, nil
	case string:
		return Buffer{ptr: unsafe.Pointer(unsafe.StringData(v)), n: len(v)}, nil
	case Framer:
		return v.Frame(), nil
	case nil:
		return Buffer{}, fmt.Errorf("nil has no memory: leave it out, or give an empty []byte")
	}
	r := reflect.ValueOf(v)
	t := r.Type()
	switch {
	case t.Kind() == reflect.String:
		s := r.String()
		return Buffer{ptr: unsafe.Pointer(unsafe.StringData(s)), n: len(s)}, nil
	case t.Kind() != reflect.Slice:
		return Buffer{}, fmt.Errorf("a %v is not a slice, a string, a mem.Buffer or a mem.Framer: for one value give a slice of it, such as x[:] of an array", t)
	case hasPointers(t.Elem()):
		return Buffer{}, fmt.Errorf("the elements of a %v hold pointers, which mean nothing to another process: give each of their buffers as a frame of its own", t)
	}
	return Buffer{ptr: r.UnsafePointer(), n: r.Len() * int(t.Elem().Size())}, nil
}

// hasPointers tells whether the memory of a type refers to other memory.
func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return t.Len() > 0 && hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	}
	return t.Kind() < reflect.Bool || t.Kind() > reflect.Complex128
}
