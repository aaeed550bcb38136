#include "data/segment_copy.hpp"

#include <cstring>
#include <utility>

#include "data/cuda/kernels.hpp"

namespace millrace {
namespace {

std::vector<View> views_of(const SegmentCopy& copy) {
  std::vector<View> views;
  for (const BatchTensor& source : copy.sources) {
    views.push_back({source.data(), source.bytes(), Access::read});
  }
  for (const BatchTensor& target : copy.targets) {
    views.push_back({target.data(), target.bytes(), Access::write});
  }
  return views;
}

std::vector<cuda::DeviceSegment> addresses_of(const SegmentCopy& copy) {
  std::vector<cuda::DeviceSegment> segments;
  for (const CopiedBytes& segment : copy.segments) {
    segments.push_back(
        {static_cast<const std::byte*>(copy.sources[segment.source].data()) + segment.from,
         static_cast<std::byte*>(copy.targets[segment.target].data()) + segment.to, segment.bytes});
  }
  return segments;
}

}  // namespace

void SegmentCopy::launch(const JaggedScope& scope) && {
  std::erase_if(segments, [](const CopiedBytes& segment) { return segment.bytes == 0; });
  if (segments.empty()) return;

  Operation operation;
  operation.name = name;
  operation.views = views_of(*this);
  for (const CopiedBytes& segment : segments) {
    // Each byte is read and written.
    operation.cost.bytes += 2 * static_cast<double>(segment.bytes);
  }
  operation.cuda = cuda::copy_segments(addresses_of(*this));
  if (!scope.cost_only) {
    operation.host = [segments = std::move(segments),
                      first_target = sources.size()](const KernelContext& context) {
      for (const CopiedBytes& segment : segments) {
        std::memcpy(context.bytes(first_target + segment.target).data() + segment.to,
                    context.bytes(segment.source).data() + segment.from, segment.bytes);
      }
    };
  }
  scope.memory.device().device().launch(std::move(operation), scope.stream.handle());
}

}  // namespace millrace
