// Package gpu measures a machine's cards: by NVML in a child process, by nvidia-smi where there is no cgo, or from a file for simulation and for
// other vendors. What cannot be measured is unknown, never a good value, and never the agent's end: a wrong NVML call ends the process that makes
// it, and a driver call can hang for ever. It knows nothing of models, replicas and peers.
package gpu
