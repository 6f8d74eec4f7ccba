/* A driver library with two cards, for the test of the true path from Go through cgo and the dynamic linker. It has only the functions that are
 * listed here: a call of any other one ends the process, as with a driver that is older than the caller. */
#include <string.h>

typedef void *device;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int gpu, memory; } utilization;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } process;
typedef struct {
	unsigned int field, scope; long long timestamp, latency; unsigned int type, ret; unsigned long long value;
} fieldvalue;

static int cards[2];

int nvmlInit_v2(void) { return 0; }
int nvmlInitWithFlags(unsigned int flags) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int r) { return "an error of the fake driver"; }
int nvmlSystemGetDriverVersion(char *out, unsigned int n) { strncpy(out, "999.1", n); return 0; }
int nvmlDeviceGetCount_v2(unsigned int *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int i, device *d) { if (i > 1) return 2; *d = &cards[i]; return 0; }
static int at(device d) { return (int *)d == &cards[1]; }
int nvmlDeviceGetUUID(device d, char *out, unsigned int n) { strncpy(out, at(d) ? "GPU-fake-1" : "GPU-fake-0", n); return 0; }
int nvmlDeviceGetName(device d, char *out, unsigned int n) { strncpy(out, "NVIDIA H100 80GB HBM3", n); return 0; }
int nvmlDeviceGetMemoryInfo(device d, memory *m) { m->total = 85520809984ULL; m->used = 1ULL << 30; m->free = m->total - m->used; return 0; }
int nvmlDeviceGetUtilizationRates(device d, utilization *u) { u->gpu = 25; u->memory = 5; return 0; }
int nvmlDeviceGetTemperature(device d, int sensor, unsigned int *t) { *t = 50; return 0; }
int nvmlDeviceGetPowerUsage(device d, unsigned int *mw) { return 3; }
int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned int *n, process *out) { *n = 0; return 0; }
int nvmlDeviceGetFieldValues(device d, int n, fieldvalue *v) {
	for (int i = 0; i < n; i++) { v[i].ret = 0; v[i].value = at(d) ? 1 : 0; }
	return 0;
}
