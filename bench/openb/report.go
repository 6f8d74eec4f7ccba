package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// near is by how many points a baseline may miss what was published.
const near = 0.3

// report is one trace's result.
type report struct {
	Trace    string             `json:"trace"`
	Policies []line             `json:"policies"`
	Ratios   map[string]float64 `json:"unallocated_to_fgd_by_seed"`
	Ratio    float64            `json:"unallocated_to_fgd"`
	Runs     []run              `json:"runs"`
}

// line is one policy over all seeds.
type line struct {
	Policy    string    `json:"policy"`
	At100     spread    `json:"allocated_percent_at_100"`
	At130     spread    `json:"allocated_percent_at_130"`
	Published published `json:"published"`
	P50       float64   `json:"decision_p50_us"`
	P99       float64   `json:"decision_p99_us"`
	runs      []run
}

func newReport(from files, w *workload, runs []run) (report, error) {
	r := report{Trace: w.trace, Runs: runs, Ratios: map[string]float64{}}
	for _, name := range names {
		l := line{Policy: name}
		for _, x := range runs {
			if x.Policy == name {
				l.runs = append(l.runs, x)
			}
		}
		l.At100 = over(l.runs, func(x run) float64 { return x.At100 })
		l.At130 = over(l.runs, func(x run) float64 { return x.At130 })
		l.P50 = over(l.runs, func(x run) float64 { return x.P50 }).Mean
		l.P99 = over(l.runs, func(x run) float64 { return x.P99 }).Mean
		have, err := from.published(w.trace, name)
		if err != nil {
			return r, err
		}
		l.Published = have
		r.Policies = append(r.Policies, l)
	}
	fgd, berth := r.of("FGD"), r.of("Berth")
	r.Ratio = (100 - berth.At130.Mean) / (100 - fgd.At130.Mean)
	for i, x := range berth.runs {
		r.Ratios[fmt.Sprint(x.Seed)] = (100 - x.At130) / (100 - fgd.runs[i].At130)
	}
	return r, nil
}

func (r *report) of(name string) *line {
	for i := range r.Policies {
		if r.Policies[i].Policy == name {
			return &r.Policies[i]
		}
	}
	return nil
}

// honest says which baselines are not what was published.
func (r *report) honest() error {
	var errs []error
	for _, l := range r.Policies {
		for _, at := range []struct {
			arrived            int
			reaches, published float64
		}{{100, l.At100.Mean, l.Published.At100}, {130, l.At130.Mean, l.Published.At130}} {
			if at.published > 0 && math.Abs(at.reaches-at.published) > near {
				errs = append(errs, fmt.Errorf("%s: at %d %% of demand %s reaches %.2f %%; %.2f %% was published, and %.1f points are allowed",
					r.Trace, at.arrived, l.Policy, at.reaches, at.published, near))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *report) print(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tallocated at 100 %%\tat 130 %%\tsd\tpublished (100 %%, 130 %%)\tunallocated\tto FGD\tp50 us\tp99 us\t\n", r.Trace)
	fgd := 100 - r.of("FGD").At130.Mean
	for _, l := range r.Policies {
		pub := "-"
		if p := l.Published; p.At130 > 0 {
			pub = fmt.Sprintf("%.2f, %.2f", p.At100, p.At130)
		}
		left := 100 - l.At130.Mean
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%s\t%.2f\t%.3f\t%.0f\t%.0f\t\n", l.Policy, l.At100.Mean, l.At130.Mean, l.At130.SD, pub, left, left/fgd, l.P50, l.P99)
	}
	w.Flush()
	fmt.Fprintf(to, "by seed (unallocated Berth / FGD, and their ratio):")
	for i, x := range r.of("Berth").runs {
		f := r.of("FGD").runs[i]
		fmt.Fprintf(to, "  %d: %.2f/%.2f=%.3f", x.Seed, 100-x.At130, 100-f.At130, (100-x.At130)/(100-f.At130))
	}
	if pub := r.of("FGD").Published.At130; pub > 0 {
		fmt.Fprintf(to, "\nto what was published for FGD: %.3f", (100-r.of("Berth").At130.Mean)/(100-pub))
	}
	fmt.Fprint(to, "\n\n")
}
