package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Rule is a plan for frames of up to a number of bytes.
type Rule struct {
	Plan Plan
	UpTo int
}

// Plans are rules in rising order, of which the last has no limit.
type Plans []Rule

// For is the plan for a frame of n bytes.
func (p Plans) For(n int) Plan {
	for _, rule := range p {
		if n <= rule.UpTo {
			return rule.Plan
		}
	}
	return Request
}

// String is the form that ParsePlans reads.
func (p Plans) String() string {
	var parts []string
	for _, rule := range p {
		if rule.UpTo == math.MaxInt {
			parts = append(parts, rule.Plan.String())
			continue
		}
		n, unit := rule.UpTo, ""
		for _, u := range []string{"K", "M", "G"} {
			if n >= 1024 && n%1024 == 0 {
				n, unit = n/1024, u
			}
		}
		parts = append(parts, fmt.Sprintf("%v:%d%s", rule.Plan, n, unit))
	}
	return strings.Join(parts, ",")
}

// ParsePlans reads a list such as "inline:512,datatype:1M,request"; "" is none.
func ParsePlans(text string) (Plans, error) {
	var plans Plans
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		name, limit, limited := strings.Cut(strings.TrimSpace(part), ":")
		rule := Rule{UpTo: math.MaxInt}
		for rule.Plan = range Chunks { // which is for who may stage
			if planNames[rule.Plan] == name {
				break
			}
		}
		if planNames[rule.Plan] != name {
			return nil, fmt.Errorf("%q: want inline, datatype or request", name)
		}
		if limited {
			n, err := parseSize(limit)
			if err != nil {
				return nil, err
			}
			rule.UpTo = n
		}
		switch {
		case limited != (i < len(parts)-1):
			return nil, fmt.Errorf("%q: every plan but the last has a limit, as in inline:512,datatype:1M,request", text)
		case i > 0 && rule.UpTo <= plans[i-1].UpTo:
			return nil, fmt.Errorf("%q: the limits do not rise", text)
		}
		plans = append(plans, rule)
	}
	return plans, nil
}

func parseSize(text string) (int, error) {
	number, shift := text, 0
	if i := strings.IndexAny(text, "KMG"); i >= 0 && i == len(text)-1 {
		number, shift = text[:i], 10*(1+strings.IndexByte("KMG", text[i]))
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > math.MaxInt>>shift {
		return 0, fmt.Errorf("%q: want a number of bytes, such as 512, 64K or 1M", text)
	}
	return n << shift, nil
}

// defaultPlans are the plans for each family of MPIs (cmpi.Library.Family), in the
// form that `pingpong tune` prints. They are what was fastest for messages of 2 to
// 64 frames between two ranks that share memory, under Open MPI 4.1.4 and MPICH
// 4.0.2 alike (docs/performance.md).
var defaultPlans = map[string]string{
	"openmpi": "inline:512,datatype:512K,request",
	"mpich":   "inline:512,datatype:512K,request",
	"mpiabi":  "inline:512,datatype:512K,request",
}

// DefaultPlans are the plans for a family of MPIs, in the form that ParsePlans
// reads.
func DefaultPlans(family string) string { return defaultPlans[family] }
