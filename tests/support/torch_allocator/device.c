/* A CUDA runtime without a GPU: as much of libcudart, and of the driver that it leads to, as PyTorch's caching allocator calls.

   Memory is numbers only: an address is given out and charged against a limit, and nothing is ever written there.  The environment says
   DEVICE_BYTES   bytes of the device
   DEVICE_POLICY  where new memory lies: "ascending", "descending", "reuse" (the lowest gap that is large enough) or "shuffled" */
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define UNIT ((uint64_t)2 << 20)
#define MOST 65536
#define FABRIC 8 /* CU_MEM_HANDLE_TYPE_FABRIC, which older headers do not know */

static struct { uint64_t begin, size; } taken[MOST];
static int count;
static uint64_t in_use, above = UNIT << 24, below = UNIT << 24, ranges = UNIT << 25, handles = 1;
static struct { uint64_t handle, size; } physical[MOST];
static int pieces;
static uint64_t random_state = 88172645463325252u;
int device_events_done = 1;

static uint64_t device_bytes(void) {
  const char *text = getenv("DEVICE_BYTES");
  return text ? strtoull(text, 0, 10) : (uint64_t)1 << 40;
}

static uint64_t place(uint64_t size) {
  const char *policy = getenv("DEVICE_POLICY");
  if (policy && !strcmp(policy, "descending")) return below -= size;
  if (policy && !strcmp(policy, "shuffled")) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    if (random_state & 1) return below -= size;
  }
  if (policy && !strcmp(policy, "reuse")) { /* taken[] is in the order of addresses */
    uint64_t from = UNIT << 24;
    for (int k = 0; k < count; k++) {
      if (taken[k].begin >= from + size) break;
      from = taken[k].begin + taken[k].size;
    }
    return from;
  }
  return (above += size) - size;
}

cudaError_t cudaMalloc(void **out, size_t size) {
  uint64_t charged = (size + UNIT - 1) / UNIT * UNIT;
  if (in_use + charged > device_bytes() || count == MOST) return cudaErrorMemoryAllocation;
  uint64_t at = place(charged);
  int k = count++;
  for (; k && taken[k - 1].begin > at; k--) taken[k] = taken[k - 1];
  taken[k].begin = at;
  taken[k].size = charged;
  in_use += charged;
  *out = (void *)at;
  return cudaSuccess;
}

cudaError_t cudaFree(void *address) {
  for (int k = 0; k < count; k++)
    if (taken[k].begin == (uint64_t)address) {
      in_use -= taken[k].size;
      memmove(taken + k, taken + k + 1, sizeof taken[0] * (size_t)(--count - k));
      return cudaSuccess;
    }
  return address ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total) {
  *total = device_bytes();
  *left = *total - in_use;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  (void)device;
  memset(properties, 0, sizeof *properties);
  properties->totalGlobalMem = device_bytes();
  properties->multiProcessorCount = 1;
  strcpy(properties->name, "none");
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) { (void)event; return device_events_done ? cudaSuccess : cudaErrorNotReady; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { (void)event; return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) { (void)flags; *event = (cudaEvent_t)1; return cudaSuccess; }
cudaError_t cudaGetDevice(int *device) { *device = 0; return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *devices) { *devices = 1; return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *version) { *version = 13000; return cudaSuccess; }
const char *cudaGetErrorName(cudaError_t error) { (void)error; return "error"; }
const char *cudaGetErrorString(cudaError_t error) { (void)error; return "error"; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = *greatest = 0; return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  (void)stream;
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) { (void)mode; return cudaSuccess; }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  static uint64_t last = 4096;
  (void)flags;
  (void)priority;
  *stream = (cudaStream_t)(last += 4096);
  return cudaSuccess;
}

int device_nothing(void);

/* The driver's own calls, for expandable segments. */
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  (void)attribute;
  (void)device;
  *value = 0;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr address, unsigned long long flags) {
  (void)alignment;
  (void)address;
  (void)flags;
  *out = ranges;
  ranges += (size + UNIT) / UNIT * UNIT;
  return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *wanted, unsigned long long flags) {
  (void)flags;
  if (wanted->requestedHandleTypes == FABRIC) return CUDA_ERROR_NOT_SUPPORTED;
  if (in_use + size > device_bytes() || pieces == MOST) return CUDA_ERROR_OUT_OF_MEMORY;
  in_use += size;
  physical[pieces].handle = *out = handles++;
  physical[pieces++].size = size;
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  for (int k = 0; k < pieces; k++)
    if (physical[k].handle == handle) {
      in_use -= physical[k].size;
      physical[k] = physical[--pieces];
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemUnmap(CUdeviceptr address, size_t size) { (void)address; (void)size; return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult error, const char **out) { (void)error; *out = "error"; return CUDA_SUCCESS; }

cudaError_t cudaGetDriverEntryPointByVersion(
    const char *symbol, void **out, unsigned version, unsigned long long flags, enum cudaDriverEntryPointQueryResult *result) {
  (void)version;
  (void)flags;
  *out = dlsym(RTLD_DEFAULT, symbol);
  if (!*out) *out = (void *)device_nothing;
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

/* And of the library that tells of the device's other processes: there are none. */
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) { (void)bus; *device = (void *)1; return 0; }
int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *processes, void *out) { (void)device; (void)out; *processes = 0; return 0; }

/* What is called and does nothing, or only looked for. */
int device_nothing(void) { return 0; }
#define NOTHING(name) __asm__(".globl " #name "\n" #name " = device_nothing\n");
NOTHING(cudaDeviceCanAccessPeer) NOTHING(cudaDeviceEnablePeerAccess) NOTHING(cudaDeviceGetDefaultMemPool) NOTHING(cudaDeviceSynchronize)
NOTHING(cudaDeviceGetGraphMemAttribute) NOTHING(cudaDeviceSetGraphMemAttribute)
NOTHING(cudaEventDestroy) NOTHING(cudaEventElapsedTime) NOTHING(cudaEventRecord) NOTHING(cudaFreeAsync) NOTHING(cudaGetLastError)
NOTHING(cudaGraphNodeGetDependencies) NOTHING(cudaIpcCloseMemHandle) NOTHING(cudaIpcGetMemHandle) NOTHING(cudaIpcOpenMemHandle)
NOTHING(cudaMallocAsync) NOTHING(cudaMemPoolGetAttribute) NOTHING(cudaMemPoolSetAccess) NOTHING(cudaMemPoolSetAttribute)
NOTHING(cudaMemPoolTrimTo) NOTHING(cudaMemcpy) NOTHING(cudaMemcpyAsync) NOTHING(cudaMemcpyPeerAsync) NOTHING(cudaSetDevice)
NOTHING(cudaStreamGetCaptureInfo) NOTHING(cudaStreamQuery) NOTHING(cudaStreamSynchronize) NOTHING(cudaStreamWaitEvent)
NOTHING(cuMemMap) NOTHING(cuMemSetAccess) NOTHING(cuMemAddressFree) NOTHING(cuMemGetAllocationGranularity)
NOTHING(cuMemExportToShareableHandle) NOTHING(cuMemImportFromShareableHandle) NOTHING(cuMemsetD32Async) NOTHING(cuStreamWriteValue32)
NOTHING(cuMulticastAddDevice) NOTHING(cuMulticastBindMem) NOTHING(cuMulticastCreate)
NOTHING(nvmlDeviceGetNvLinkRemoteDeviceType) NOTHING(nvmlDeviceGetNvLinkRemotePciInfo_v2) NOTHING(nvmlSystemGetCudaDriverVersion_v2)
