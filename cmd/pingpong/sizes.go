package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// sizes are lengths, or other numbers, to measure one after the other.
type sizes []int

// UnmarshalText reads a list such as 0,1,8,64K,1M:4M. A range doubles from its
// first number to its last; from 0 it goes on with 1.
func (s *sizes) UnmarshalText(text []byte) error {
	*s = nil
	for item := range strings.SplitSeq(string(text), ",") {
		from, to, isRange := strings.Cut(item, ":")
		first, err := parseSize(from)
		if err != nil {
			return err
		}
		last := first
		if isRange {
			if last, err = parseSize(to); err != nil {
				return err
			}
			if last < first {
				return fmt.Errorf("the range %s is empty", item)
			}
		}
		for n := first; n <= last; n = max(1, 2*n) {
			*s = append(*s, n)
			if n > math.MaxInt/2 {
				break
			}
		}
	}
	return nil
}

func (s sizes) max() int { return slices.Max(s) }

// size is one number of bytes.
type size int

// UnmarshalText reads a number such as 8, 64K or 4M.
func (s *size) UnmarshalText(text []byte) error {
	n, err := parseSize(string(text))
	*s = size(n)
	return err
}

// parseSize reads a number with an optional K, M or G, which are powers of 1024.
func parseSize(text string) (int, error) {
	digits, unit := text, 1
	if n := len(text); n > 0 {
		if power := strings.IndexByte("KMG", text[n-1]&^0x20); power >= 0 {
			digits, unit = text[:n-1], 1<<(10*(power+1))
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > math.MaxInt/unit {
		return 0, fmt.Errorf("%q is not a size such as 0, 8, 64K or 4M", text)
	}
	return n * unit, nil
}

// formatSize writes a number as parseSize reads it, as short as possible.
func formatSize(n int) string {
	for power := 3; power > 0; power-- {
		if unit := 1 << (10 * power); n >= unit && n%unit == 0 {
			return strconv.Itoa(n/unit) + "KMG"[power-1:power]
		}
	}
	return strconv.Itoa(n)
}
