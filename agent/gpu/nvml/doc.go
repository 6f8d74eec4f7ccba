// Package nvml reads the cards through NVIDIA's management library. Every call here can end or hang the process, so it runs in a child of the
// agent alone (berth gpu-probe) and nothing but the probe's command imports it. Without cgo it is empty and Available is false.
package nvml
