package main

type infoCmd struct{}

func (infoCmd) ranksNeeded() int { return 1 }

// Run prints what rank 0 knows of its environment.
func (infoCmd) Run(j *job) error {
	if j.world.Rank() != 0 {
		return nil
	}
	j.report = j.begin()
	if j.report.format == "text" {
		_, err := j.report.out.WriteString(j.info.String())
		if err != nil {
			return err
		}
	} else {
		j.report.begin(0)
	}
	return j.report.end()
}
