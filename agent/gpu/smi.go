package gpu

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// SMI measures with nvidia-smi, the program that comes with the driver.
type SMI struct{ Program string } // empty: nvidia-smi in PATH

var smiColumns = []string{"index", "uuid", "name", "memory.total", "memory.used", "utilization.gpu", "temperature.gpu", "power.draw", "driver_version",
	"remapped_rows.failure", "gpu_recovery_action"}

// Read implements Reader. Columns that an older nvidia-smi does not know are left out in a second try.
func (s SMI) Read(ctx context.Context) (Reading, error) {
	r, err := s.read(ctx, smiColumns)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrNoDriver) {
		r, err = s.read(ctx, smiColumns[:len(smiColumns)-2])
		for i := range r.Cards {
			r.Cards[i].Unsure = "this nvidia-smi cannot tell a card's health"
		}
	}
	if err != nil {
		return Reading{}, err
	}
	return r, s.processes(ctx, &r)
}

func (s SMI) run(ctx context.Context, query string, columns []string) ([][]string, error) {
	program := s.Program
	if program == "" {
		program = "nvidia-smi"
	}
	cmd := exec.CommandContext(ctx, program, "--query-"+query+"="+strings.Join(columns, ","), "--format=csv,noheader,nounits")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("nvidia-smi: %s", firstLine(string(out)+string(exit.Stderr)))
		}
		if errors.Is(err, exec.ErrNotFound) {
			return nil, fmt.Errorf("%w: %s is not in PATH", ErrNoDriver, program)
		}
		return nil, fmt.Errorf("nvidia-smi: %w", err)
	}
	rows := csv.NewReader(strings.NewReader(string(out)))
	rows.TrimLeadingSpace, rows.FieldsPerRecord = true, len(columns)
	return rows.ReadAll()
}

func (s SMI) read(ctx context.Context, columns []string) (Reading, error) {
	rows, err := s.run(ctx, "gpu", columns)
	if err != nil {
		return Reading{}, err
	}
	r := Reading{Version: readingVersion}
	for _, row := range rows {
		value := map[string]string{}
		for i, col := range columns {
			value[col] = row[i]
		}
		index, err := strconv.Atoi(value["index"])
		total, err2 := strconv.ParseInt(value["memory.total"], 10, 64)
		if err != nil || err2 != nil || value["uuid"] == "" {
			return Reading{}, fmt.Errorf("nvidia-smi printed a line that is no card: %s", strings.Join(row, ", "))
		}
		r.Driver = value["driver_version"]
		r.Cards = append(r.Cards, Card{
			UUID: value["uuid"], Index: index, Name: value["name"], MemoryTotal: total << 20, MemoryUsed: mebibytes(value["memory.used"]),
			Utilization: scaled(value["utilization.gpu"], 0.01), Celsius: scaled(value["temperature.gpu"], 1), Watts: scaled(value["power.draw"], 1),
			Fault: smiFault(value),
		})
	}
	return r, nil
}

// smiFault reads the driver's own verdict first.
func smiFault(value map[string]string) string {
	if action := value["gpu_recovery_action"]; action != "" && !strings.EqualFold(action, "none") && !unknown(action) {
		return "the driver asks for: " + action
	}
	if value["remapped_rows.failure"] == "Yes" || value["remapped_rows.failure"] == "1" {
		return "a row of its memory could not be remapped"
	}
	return ""
}

// processes notes which processes hold which card.
func (s SMI) processes(ctx context.Context, r *Reading) error {
	rows, err := s.run(ctx, "compute-apps", []string{"gpu_uuid", "pid"})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return nil // the cards are there; who uses them is unknown, and ProcessesKnown says so
	}
	for i := range r.Cards {
		r.Cards[i].ProcessesKnown = true
		for _, row := range rows {
			if pid, err := strconv.Atoi(row[1]); err == nil && row[0] == r.Cards[i].UUID {
				r.Cards[i].Processes = append(r.Cards[i].Processes, pid)
			}
		}
	}
	return nil
}

// unknown says whether nvidia-smi printed that it does not know.
func unknown(text string) bool {
	return text == "" || strings.HasPrefix(text, "[") || strings.Contains(text, "N/A")
}

func scaled(text string, factor float64) *float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || unknown(text) {
		return nil
	}
	v *= factor
	return &v
}

func mebibytes(text string) *int64 {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	v <<= 20
	return &v
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
