#include "millrace/device/device.hpp"

namespace millrace {

// A switch, so that the compiler warns about a call without a name.
const char* to_string(Call call) noexcept {
  switch (call) {
    case Call::allocate:
      return "allocate";
    case Call::free:
      return "free";
    case Call::allocate_host:
      return "allocate_host";
    case Call::free_host:
      return "free_host";
    case Call::allocate_async:
      return "allocate_async";
    case Call::free_async:
      return "free_async";
    case Call::trim_pool:
      return "trim_pool";
    case Call::memory_info:
      return "memory_info";
    case Call::reserve_range:
      return "reserve_range";
    case Call::release_range:
      return "release_range";
    case Call::map:
      return "map";
    case Call::unmap:
      return "unmap";
    case Call::create_stream:
      return "create_stream";
    case Call::destroy_stream:
      return "destroy_stream";
    case Call::stream_id:
      return "stream_id";
    case Call::stream_flags:
      return "stream_flags";
    case Call::capture_status:
      return "capture_status";
    case Call::create_event:
      return "create_event";
    case Call::destroy_event:
      return "destroy_event";
    case Call::record:
      return "record";
    case Call::wait:
      return "wait";
    case Call::query_event:
      return "query_event";
    case Call::query_stream:
      return "query_stream";
    case Call::synchronize_event:
      return "synchronize_event";
    case Call::synchronize_stream:
      return "synchronize_stream";
    case Call::synchronize_device:
      return "synchronize_device";
    case Call::copy:
      return "copy";
    case Call::fill:
      return "fill";
    case Call::launch:
      return "launch";
    case Call::callback:
      return "callback";
    case Call::event_time:
      return "event_time";
    case Call::count_:
      break;
  }
  return "unknown call";
}

const char* why_refused(CaptureStatus status) noexcept {
  switch (status) {
    case CaptureStatus::none:
      return "the stream is not captured";
    case CaptureStatus::active:
      return "nothing of this stream runs before its graph is launched";
    case CaptureStatus::invalidated:
      return "an earlier call broke this stream's capture, which has to be ended "
             "(cudaStreamEndCapture)";
    case CaptureStatus::blocked:
      return "the legacy stream would wait for a stream that is being captured";
  }
  return "";
}

}  // namespace millrace
