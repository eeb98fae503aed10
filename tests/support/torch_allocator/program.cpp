// Runs a program of requests through PyTorch's own caching allocator, and writes what it did: its trace and its segments.
//
// Standard input, a line each:
//   a ID BYTES STREAM   allocate      f ID   free            e   empty_cache()     u ID STREAM   record_stream()
//   d 0|1   whether work on the device is done                p N   from now on allocate from private pool N, 0 for none
//   m FRACTION   memory fraction      h   record history from here     s CONF   other settings
// Standard output, a line each: T action address size stream pool label, S and B for segments and blocks, F ID for an allocation that failed.
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#if __has_include(<c10/cuda/PeerToPeerAccess.h>)
#include <c10/cuda/PeerToPeerAccess.h>
#endif

#include <cstdio>
#include <iostream>
#include <sstream>
#include <unordered_map>

extern "C" int device_events_done;
namespace c10::cuda::_internal {
C10_CUDA_API void setHasPrimaryContext(bool (*ask)(c10::DeviceIndex));
}
namespace caching = c10::cuda::CUDACachingAllocator;

namespace {
int label = 0;
struct Context : c10::GatheredContext {
  int label;
  explicit Context(int of) : label(of) {}
};
std::shared_ptr<c10::GatheredContext> gather() {
  return std::make_shared<Context>(label);
}
int label_of(const std::shared_ptr<c10::GatheredContext>& context) {
  auto* own = dynamic_cast<Context*>(context.get());
  return own ? own->label : -1;
}
// The versions of PyTorch differ in what these take and have.
template <typename Allocator>
void record(Allocator* allocator) {
  constexpr auto most = static_cast<size_t>(-1) >> 1;
  if constexpr (requires { allocator->recordHistory(true, gather, most, caching::RecordContext::ALL, true, {}); }) {
    allocator->recordHistory(true, gather, most, caching::RecordContext::ALL, true, {});
  } else if constexpr (requires { allocator->recordHistory(true, gather, most, caching::RecordContext::ALL, true); }) {
    allocator->recordHistory(true, gather, most, caching::RecordContext::ALL, true);
  } else {
    allocator->recordHistory(true, gather, most, caching::RecordContext::ALL);
  }
}
template <typename Segment>
long registered(const Segment& segment) {
  if constexpr (requires { segment.registration_counter; }) return segment.registration_counter;
  return -1;
}
template <typename Entry>
long long pool_of(const Entry& entry) {
  if constexpr (requires { entry.mempool_; }) return static_cast<long long>(entry.mempool_.second);
  return -1;
}
} // namespace

int main() {
  c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
  auto* allocator = caching::get();
  allocator->init(1);
#if __has_include(<c10/cuda/PeerToPeerAccess.h>)
  c10::cuda::detail::init_p2p_access_cache(1);
#endif
  std::unordered_map<long, void*> blocks;
  std::string line;
  long pool = 0, lines = 0;
  while (std::getline(std::cin, line)) {
    std::istringstream text(line);
    std::string what;
    long id = 0;
    unsigned long long bytes = 0, stream = 0;
    text >> what;
    label = static_cast<int>(++lines);
    if (what == "a") {
      text >> id >> bytes >> stream;
      try {
        blocks[id] = allocator->raw_alloc_with_stream(bytes, reinterpret_cast<cudaStream_t>(stream));
      } catch (const c10::OutOfMemoryError&) {
        std::printf("F %ld\n", id);
      }
    } else if (what == "f") {
      text >> id;
      if (auto found = blocks.find(id); found != blocks.end()) {
        allocator->raw_delete(found->second);
        blocks.erase(found);
      }
    } else if (what == "e") {
      label = 0;
      allocator->emptyCache();
    } else if (what == "u") {
      text >> id >> stream;
      if (auto found = blocks.find(id); found != blocks.end()) {
        c10::DataPtr data(found->second, found->second, allocator->raw_deleter(), c10::Device(c10::kCUDA, 0));
        allocator->recordStream(data, c10::cuda::getStreamFromExternal(reinterpret_cast<cudaStream_t>(stream), 0));
        data.release_context();
      }
    } else if (what == "d") {
      text >> device_events_done;
    } else if (what == "p") {
      if (pool) allocator->endAllocateToPool(0, {0, static_cast<unsigned long long>(pool)});
      text >> pool;
      if (pool) allocator->beginAllocateToPool(0, {0, static_cast<unsigned long long>(pool)}, [](cudaStream_t) { return true; });
    } else if (what == "m") {
      double fraction = 1;
      text >> fraction;
      allocator->setMemoryFraction(fraction, 0);
    } else if (what == "h") {
      record(allocator);
    } else if (what == "s") {
      std::string conf;
      text >> conf;
      caching::setAllocatorSettings(conf);
    }
  }
  auto snapshot = allocator->snapshot();
  static const char* const actions[] = {
      "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "snapshot", "oom"};
  for (const auto& trace : snapshot.device_traces)
    for (const auto& entry : trace)
      std::printf("T %s %zu %zu %zu %lld %d\n", actions[entry.action_], entry.addr_, entry.size_,
          reinterpret_cast<size_t>(entry.stream_), pool_of(entry), label_of(entry.context_));
  for (const auto& segment : snapshot.segments) {
    std::printf("S %zu %zu %zu %zu %zu %zu %d %d %llu %ld\n", segment.address, segment.total_size, segment.requested_size,
        segment.allocated_size, segment.active_size, reinterpret_cast<size_t>(segment.stream), segment.is_large ? 1 : 0,
        segment.is_expandable ? 1 : 0, segment.owner_private_pool_id.second, registered(segment));
    for (const auto& block : segment.blocks)
      std::printf("B %zu %zu %d %d\n", block.size, block.requested_size, block.allocated ? 1 : 0, block.active ? 1 : 0);
  }
  const auto& config = snapshot.config_metadata;
  std::printf("C max_split_size %lld\nC garbage_collection_threshold %.17g\nC expandable_segments %s\n",
      static_cast<long long>(config.max_split_size), config.garbage_collection_threshold, config.expandable_segments ? "True" : "False");
  for (size_t k = 0; k < config.roundup_power2_divisions.size(); k++)
    std::printf("C roundup_power2_divisions.%zu %zu\n", size_t{1} << k, config.roundup_power2_divisions[k]);
  std::printf("C PYTORCH_CUDA_ALLOC_CONF %s\n", config.last_allocator_settings.c_str());
}
