// Package steps is the script of the demonstration: a whole cluster of separate processes does the main job, and each step is checked. The program
// beside it prints the steps to a terminal, and the integration test runs the same ones.
package steps
