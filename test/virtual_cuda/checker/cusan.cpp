// The cases of the test suite of the race checker CuSan (github.com/tudasc/cusan, test/runtime),
// written again for this runtime. Each case has a racy form and a mended form, unless it has no
// race at all. If CuSan's program is two processes of MPI, the case is the code of both, one after
// the other. MPI's accesses are reported as accesses of host code.

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "test/virtual_cuda/checker/scene.hpp"

using namespace millrace::test;
using kernels::Buffers;
using kernels::launch_read;
using kernels::launch_write;
using kernels::launch_write_first;
using kernels::launch_write_second;

namespace {

constexpr std::size_t kCount = 512;
constexpr std::size_t kArrayBytes = kCount * sizeof(int);

enum class Form { racy, mended };

/** Memory of the cases. It is freed at the end, as their programs do. */
class Memory {
 public:
  Memory() = default;
  ~Memory() {
    cudaDeviceSynchronize();
    for (void* const address : device_) cudaFree(address);
    for (void* const address : pinned_) cudaFreeHost(address);
    for (void* const address : pageable_) std::free(address);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int* device(std::size_t bytes = kArrayBytes) {
    CUDA_OK(cudaMalloc(&device_.emplace_back(), bytes));
    return static_cast<int*>(device_.back());
  }
  int* managed(std::size_t bytes = kArrayBytes) {
    CUDA_OK(cudaMallocManaged(&device_.emplace_back(), bytes, cudaMemAttachGlobal));
    return static_cast<int*>(device_.back());
  }
  int* pitched(std::size_t& pitch, std::size_t width, std::size_t height) {
    CUDA_OK(cudaMallocPitch(&device_.emplace_back(), &pitch, width, height));
    return static_cast<int*>(device_.back());
  }
  int* pinned() {
    CUDA_OK(cudaHostAlloc(&pinned_.emplace_back(), kArrayBytes, cudaHostAllocDefault));
    return static_cast<int*>(pinned_.back());
  }
  int* pageable(std::size_t bytes = kArrayBytes) {
    pageable_.push_back(std::calloc(1, bytes));
    return static_cast<int*>(pageable_.back());
  }

 private:
  std::vector<void*> device_, pinned_, pageable_;
};

// How MPI accesses a buffer.
void send(const int* buffer, std::size_t bytes = kArrayBytes) { host_reads(buffer, bytes); }
void receive(const int* buffer, std::size_t bytes = kArrayBytes) { host_writes(buffer, bytes); }

void fill(int* to) { CUDA_OK(cudaMemset(to, 0, kArrayBytes)); }
void fetch(int* to, const int* from) {
  CUDA_OK(cudaMemcpy(to, from, kArrayBytes, cudaMemcpyDeviceToHost));
}
void fetch_async(int* to, const int* from, cudaStream_t stream) {
  CUDA_OK(cudaMemcpyAsync(to, from, kArrayBytes, cudaMemcpyDefault, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  host_reads(to, kArrayBytes);
}

// A kernel writes managed memory, `wait` waits for it in the mended form, and the host reads.
template <typename Wait>
void write_and_look(cudaStream_t stream, Form form, Wait wait) {
  Memory memory;
  int* const data = memory.managed();
  fill(data);
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(data, stream);
  if (form == Form::mended) wait();
  host_reads(data, kArrayBytes);
}

// The same with device memory and MPI.
template <typename Wait>
void write_and_send(cudaStream_t stream, Form form, Wait wait) {
  Memory memory;
  int* const data = memory.device();
  launch_write(data, stream);
  if (form == Form::mended) wait();
  send(data);
  int* const received = memory.device();
  receive(received);
  fetch(memory.pageable(), received);
}

void synchronize_device() { CUDA_OK(cudaDeviceSynchronize()); }

void event(Form form) {
  const Event end;
  Memory memory;
  int* const data = memory.managed();
  fill(data);
  launch_write(data, nullptr);
  CUDA_OK(cudaEventRecord(end, nullptr));
  if (form == Form::mended) CUDA_OK(cudaEventSynchronize(end));
  host_reads(data, kArrayBytes);
}

void cuda_to_mpi(Form form) { write_and_send(nullptr, form, synchronize_device); }

void mpi_to_cuda(Form form) {
  Memory memory;
  int* const data = memory.device();
  launch_write(data, nullptr);
  CUDA_OK(cudaDeviceSynchronize());
  send(data);
  int* const received = memory.device();
  if (form == Form::mended) receive(received);
  launch_write(received, nullptr);
  if (form == Form::racy) receive(received);  // MPI may write until the wait for it
  fetch(memory.pageable(), received);
}

void cuda_to_mpi_stream(Form form) {
  const Stream stream{cudaStreamDefault};
  write_and_send(stream, form, [&] { CUDA_OK(cudaStreamSynchronize(stream)); });
}

void cuda_to_mpi_event(Form form) {
  const Event event;
  Memory memory;
  int* const data = memory.device();
  launch_write(data, nullptr);
  CUDA_OK(cudaEventRecord(event, nullptr));
  if (form == Form::mended) CUDA_OK(cudaEventSynchronize(event));
  send(data);
}

void cuda_to_mpi_read(Form) {
  Memory memory;
  int* const data = memory.device();
  launch_write(data, nullptr);
  CUDA_OK(cudaDeviceSynchronize());
  launch_read(memory.device(), data, nullptr);
  send(data);
  CUDA_OK(cudaDeviceSynchronize());
}

void memcpy_to_mpi(Form) {
  const Stream extra{cudaStreamDefault};
  Memory memory;
  int* const data = memory.device();
  CUDA_OK(cudaMemset(data, 255, kArrayBytes));
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaMemcpy(data, memory.pageable(), kArrayBytes, cudaMemcpyHostToDevice));
  send(data);
  int* const received = memory.device();
  receive(received);
  fetch_async(memory.pageable(), received, extra);
}

void memcpy_default(Form) {
  Memory memory;
  int* const data = memory.pageable();
  CUDA_OK(cudaHostRegister(data, kArrayBytes, cudaHostRegisterDefault));
  host_writes(data, kArrayBytes);
  CUDA_OK(cudaMemcpy(data, data, kArrayBytes, cudaMemcpyDefault));
  host_reads(data, kArrayBytes);
  CUDA_OK(cudaHostUnregister(data));
}

void host_alloc(Form) {
  Memory memory;
  host_writes(memory.pinned(), kArrayBytes);
  host_writes(memory.pinned(), kArrayBytes);
}

// One stream writes the first buffer and another stream the second. Then `then` uses the second.
template <typename Then>
void two_buffers(Form form, Then then) {
  const Stream first{cudaStreamDefault}, second{cudaStreamDefault};
  Memory memory;
  const Buffers buffers{memory.device(), memory.device()};
  launch_write_first(buffers, first);
  launch_write_second(buffers, second);
  launch_write_second(buffers, second);
  if (form == Form::mended) CUDA_OK(cudaDeviceSynchronize());
  then(buffers, first);
}

void struct_of_buffers_to_mpi(Form form) {
  two_buffers(form, [](const Buffers& buffers, cudaStream_t) { send(buffers.second); });
}
void struct_of_buffers(Form form) { two_buffers(form, launch_write_second); }
void struct_behind_a_pointer(Form form) { struct_of_buffers_to_mpi(form); }
void struct_in_a_struct(Form form) { struct_of_buffers(form); }

void functor(Form form) {
  const Event end;
  Memory memory;
  int* const data = memory.managed();
  fill(data);
  CUDA_OK(cudaDeviceSynchronize());
  launch_write_first({data, nullptr}, nullptr);
  CUDA_OK(cudaEventRecord(end, nullptr));
  if (form == Form::mended) CUDA_OK(cudaEventSynchronize(end));
  host_reads(data, kArrayBytes);
}

// A fill of managed memory waits for the legacy stream, which waits for blocking streams.
void memset_synchronizes(Form form) {
  const Stream first{cudaStreamDefault}, second{cudaStreamDefault};
  Memory memory;
  int* const other = memory.managed();
  int* const last = memory.managed();
  write_and_look(first, form, [&] {
    CUDA_OK(cudaMemset(other, 0, 4));
    launch_write(last, second);
    CUDA_OK(cudaStreamSynchronize(second));
  });
}

void memset_does_not_synchronize_nonblocking(Form form) {
  const Stream first{cudaStreamNonBlocking};
  Memory memory;
  int* const data = memory.managed();
  int* const other = memory.managed();
  fill(data);
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(data, first);
  CUDA_OK(cudaMemset(other, 0, 4));
  if (form == Form::mended) CUDA_OK(cudaStreamSynchronize(first));
  host_reads(data, kArrayBytes);
}

// In CuSan, an allocation between the two accesses waits for the device. CUDA does not promise
// that.
template <typename Allocate>
void allocation_between(Form form, Allocate allocate) {
  const Stream first{cudaStreamDefault}, second{cudaStreamDefault};
  Memory memory;
  int* const data = memory.device();
  fill(data);
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(data, first);
  if (form == Form::mended) allocate(memory);
  fetch_async(memory.pageable(), data, second);
}
void host_alloc_between(Form form) {
  allocation_between(form, [](Memory& memory) { memory.managed(); });
}
void malloc_between(Form form) {
  allocation_between(form, [](Memory& memory) { memory.device(); });
}

void stream_query(Form form) {
  const Stream stream{cudaStreamDefault};
  write_and_look(stream, form, [&] {
    while (cudaStreamQuery(stream) != cudaSuccess) continue;
  });
}

void query_until_done(const Event& event) {
  while (cudaEventQuery(event) != cudaSuccess) continue;
}
void event_query_of(const Event& event, Form form) {
  const Stream stream{cudaStreamDefault};
  Memory memory;
  int* const data = memory.managed();
  fill(data);
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(data, stream);
  CUDA_OK(cudaEventRecord(event, stream));
  if (form == Form::mended) query_until_done(event);
  host_reads(data, kArrayBytes);
}
void event_query(Form form) { event_query_of(Event{cudaEventDefault}, form); }
void event_with_flags_query(Form form) { event_query_of(Event{cudaEventDisableTiming}, form); }
void cuda_to_mpi_event_query(Form form) {
  const Event event;
  event_query_of(event, form);  // MPI reads here, like the host there
  Memory memory;
  receive(memory.managed());
}

void copy_between_host_memory(Memory& memory) {
  CUDA_OK(cudaMemcpy(memory.pageable(), memory.pageable(), 4, cudaMemcpyHostToHost));
}
void host_copy_between(Form form) { allocation_between(form, copy_between_host_memory); }
void host_copy_between_nonblocking(Form form) {
  const Stream first, second;
  Memory memory;
  int* const data = memory.device();
  fill(data);
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(data, first);
  copy_between_host_memory(memory);
  if (form == Form::mended) CUDA_OK(cudaStreamSynchronize(first));
  fetch_async(memory.pageable(), data, second);
}
void host_copy_before_mpi(Form form) {
  const Stream stream{cudaStreamDefault};
  Memory memory;
  int* const data = memory.device();
  fill(data);
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(data, stream);
  if (form == Form::mended) copy_between_host_memory(memory);
  send(data);
}

// Work on the legacy stream comes after that of blocking streams. A wait for it waits for both.
void default_stream_waits(Form form) {
  const Stream stream{cudaStreamDefault};
  Memory memory;
  int* const other = memory.device();
  write_and_look(stream, form, [&] {
    launch_write(other, nullptr);
    CUDA_OK(cudaStreamSynchronize(nullptr));
  });
}
void default_stream_waits_before_mpi(Form form) {
  const Stream stream{cudaStreamDefault};
  Memory memory;
  int* const other = memory.device();
  write_and_send(stream, form, [&] {
    launch_write(other, nullptr);
    CUDA_OK(cudaStreamSynchronize(nullptr));
  });
}

void chunked(Form) {
  constexpr std::size_t kChunks = 4, kChunk = kArrayBytes / kChunks;
  const Stream kernel_stream{cudaStreamDefault};
  std::vector<std::unique_ptr<Stream>> streams;
  for (std::size_t i = 0; i < kChunks; ++i)
    streams.push_back(std::make_unique<Stream>(cudaStreamDefault));
  Memory memory;
  int* const data = memory.device();
  int* const host = memory.pageable();
  launch_write(data, kernel_stream);
  CUDA_OK(cudaStreamSynchronize(kernel_stream));
  const auto at = [](int* start, std::size_t chunk) { return start + chunk * kCount / kChunks; };
  for (std::size_t i = 0; i < kChunks; ++i)
    CUDA_OK(cudaMemcpyAsync(at(host, i), at(data, i), kChunk, cudaMemcpyDeviceToHost, *streams[i]));
  for (std::size_t i = 0; i < kChunks; ++i) {
    CUDA_OK(cudaStreamSynchronize(*streams[i]));
    send(at(host, i), kChunk);
  }
}

// CuSan's kernel knows which half it writes. Here only the second launch may reach the end.
void partial_write(Form) {
  const Stream stream{cudaStreamDefault};
  Memory memory;
  int* const data = memory.device();
  launch_write(data, stream);
  CUDA_OK(cudaStreamSynchronize(stream));
  launch_write(data + kCount / 2, stream);
  send(data, kArrayBytes / 2);
  CUDA_OK(cudaStreamSynchronize(stream));
  send(data + kCount / 2, kArrayBytes / 2);
}

void work_after_default_stream(Form form) {
  const Stream stream{cudaStreamDefault};
  Memory memory;
  int* const other = memory.device();
  Memory managed;
  int* const data = managed.managed();
  fill(data);
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(data, nullptr);
  launch_write(other, stream);
  if (form == Form::mended) CUDA_OK(cudaStreamSynchronize(stream));
  host_reads(data, kArrayBytes);
}
void work_after_default_stream_nonblocking(Form form) {
  const Stream stream{cudaStreamNonBlocking};
  Memory memory;
  int* const data = memory.managed();
  int* const other = memory.device();
  fill(data);
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(data, nullptr);
  launch_write(other, stream);
  CUDA_OK(cudaStreamSynchronize(stream));
  if (form == Form::mended) CUDA_OK(cudaDeviceSynchronize());
  host_reads(data, kArrayBytes);
}

// In CuSan, a wait for the legacy stream waits for blocking streams, even if it has no work.
void sync_of_default_stream(Form form) {
  const unsigned flags = form == Form::mended ? cudaStreamDefault : cudaStreamNonBlocking;
  const Stream stream{flags};
  Memory memory;
  int* const data = memory.managed();
  fill(data);
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(data, stream);
  CUDA_OK(cudaStreamSynchronize(nullptr));
  host_reads(data, kArrayBytes);
}

void default_stream_between(Form form) {
  const Stream first{cudaStreamDefault}, second{cudaStreamDefault};
  Memory memory;
  int* const other = memory.device();
  int* const data = memory.managed();
  fill(data);
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(data, first);
  launch_write(other, nullptr);
  launch_write(other, second);
  if (form == Form::mended) CUDA_OK(cudaStreamSynchronize(second));
  host_reads(data, kArrayBytes);
}

void malloc_pitch(Form form) {
  Memory memory;
  std::size_t pitch = 0;
  int* const data = memory.pitched(pitch, 16, 8);
  launch_write(data, nullptr);
  if (form == Form::mended) CUDA_OK(cudaDeviceSynchronize());
  send(data, pitch * 8);
}

constexpr std::size_t kWidth = 256, kHeight = 8;

// A copy of rows to pageable memory waits. CuSan's case then copies on another stream.
template <typename Between>
void rows_between(Form form, Between between) {
  const Stream first{cudaStreamDefault}, second{cudaStreamDefault};
  Memory memory;
  std::size_t pitch = 0;
  int* const data = memory.pitched(pitch, kWidth, kHeight);
  CUDA_OK(cudaMemset2D(data, pitch, 0, kWidth, kHeight));
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(data, first);
  if (form == Form::mended) between(memory, data, pitch);
  CUDA_OK(cudaMemcpy2DAsync(memory.pageable(kWidth * kHeight), kWidth, data, pitch, kWidth, kHeight,
                            cudaMemcpyDeviceToHost, second));
  CUDA_OK(cudaStreamSynchronize(second));
}
void memcpy_2d_synchronizes(Form form) {
  rows_between(form, [](Memory& memory, const int* data, std::size_t pitch) {
    CUDA_OK(cudaMemcpy2D(memory.pageable(kWidth * kHeight), kWidth, data, pitch, kWidth, kHeight,
                         cudaMemcpyDeviceToHost));
  });
}
void memset_2d_orders(Form form) {
  rows_between(form, [](Memory& memory, const int*, std::size_t) {
    std::size_t pitch = 0;
    int* const other = memory.pitched(pitch, kWidth, kHeight);
    CUDA_OK(cudaMemset2D(other, pitch, 0, kWidth, kHeight));
  });
}

void event_between_streams(Form form) {
  const Event done;
  const Stream first{cudaStreamDefault}, second{cudaStreamDefault};
  Memory memory;
  int* const data = memory.device();
  launch_write(data, first);
  CUDA_OK(cudaEventRecord(done, first));
  if (form == Form::mended) CUDA_OK(cudaEventSynchronize(done));
  launch_write(data, second);
}

void async_copy(Form form) {
  const Stream first{cudaStreamDefault}, second{cudaStreamDefault};
  Memory memory;
  int* const data = memory.device();
  launch_write(data, first);
  if (form == Form::mended) CUDA_OK(cudaStreamSynchronize(first));
  fetch_async(memory.pageable(), data, second);
}

void wait_event(Form form) {
  const Event done;
  const Stream first{cudaStreamDefault}, second{cudaStreamDefault};
  Memory memory;
  int* const result = memory.device();
  int* const data = memory.device();
  CUDA_OK(cudaMemcpy(data, memory.pageable(), kArrayBytes, cudaMemcpyHostToDevice));
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(data, first);
  CUDA_OK(cudaEventRecord(done, first));
  if (form == Form::mended) CUDA_OK(cudaStreamWaitEvent(second, done, 0));
  launch_read(result, data, second);
  fetch(memory.pageable(), data);
  CUDA_OK(cudaStreamSynchronize(second));
}

// The kernel writes through a pointer that lies before the one that it gets.
void negative_index(Form form) {
  Memory memory;
  int* const data = memory.managed();
  fill(data);
  CUDA_OK(cudaDeviceSynchronize());
  launch_write(memory.managed(), nullptr);  // the signature only shows the list of pointers
  if (form == Form::mended) CUDA_OK(cudaDeviceSynchronize());
  host_reads(data, kArrayBytes);
}

void null_in_a_struct(Form form) {
  Memory memory;
  int* const data = memory.managed();
  launch_write_first({data, nullptr}, nullptr);
  if (form == Form::mended) CUDA_OK(cudaDeviceSynchronize());
  host_reads(data, kArrayBytes);
}

struct Case {
  const char* name;  ///< the name of CuSan's program
  void (*run)(Form);
  bool racy_is_named = true;
  bool mended_is_named = false;
};

// docs/virtual-cuda-checker.md has this table, and explains verdicts that differ from CuSan's.
constexpr Case kCases[] = {
    {"02_event", event},
    {"03_cuda_to_mpi", cuda_to_mpi},
    {"04_mpi_to_cuda", mpi_to_cuda},
    {"05_cuda_to_mpi_stream", cuda_to_mpi_stream},
    {"06_cuda_to_mpi_event", cuda_to_mpi_event},
    {"07_cuda_to_mpi_read", cuda_to_mpi_read, false},
    {"08_cudamemcpy_to_mpi", memcpy_to_mpi, true, true},
    {"09_cudamemcpy_default", memcpy_default, false},
    {"10_cudahostalloc", host_alloc, false},
    {"11_cuda_to_mpi_struct_of_buff", struct_of_buffers_to_mpi},
    {"11_struct_of_buff", struct_of_buffers},
    {"12_struct_ptr", struct_behind_a_pointer},
    {"13_struct_recursion", struct_in_a_struct},
    {"14_cuda_functor", functor},
    {"15_cuda_memset_sync", memset_synchronizes},
    {"15_cuda_memset_sync_nonblocking", memset_does_not_synchronize_nonblocking},
    {"16_cuda_hostalloc_implicit_sync", host_alloc_between, true, true},
    {"16_cuda_malloc_implicit_sync", malloc_between, true, true},
    {"17_cuda_stream_query_busy_loop", stream_query},
    {"18_cuda_event_query_busy_loop", event_query},
    {"18_cuda_event_with_flags_query_busy_loop", event_with_flags_query},
    {"18_cuda_to_mpi_event_query_busy_loop", cuda_to_mpi_event_query},
    {"19_cuda_cudaMemcpyAsyncH2H_implicit_sync", host_copy_between},
    {"19_cuda_cudaMemcpyAsyncH2H_implicit_sync_nonblocking", host_copy_between_nonblocking},
    {"19_cuda_to_mpi_send_cudaMemcpyAsyncH2H_implicit_sync", host_copy_before_mpi},
    {"20_cuda_default_stream_sync", default_stream_waits},
    {"20_cuda_to_mpi_send_ds_sync_w_r", default_stream_waits_before_mpi},
    {"21_chunked_streams_example", chunked, false},
    {"22_cuda_to_mpi_partial_buff_write", partial_write, false},
    {"23_cuda_default_stream_post_sync", work_after_default_stream},
    {"23_cuda_default_stream_post_sync_nonblocking", work_after_default_stream_nonblocking},
    {"24_cuda_sync_stream_default_nonblocking", sync_of_default_stream, true, true},
    {"25_cuda_default_stream_double_sync", default_stream_between},
    {"26_malloc_pitch", malloc_pitch},
    {"27_cuda_memcpy2d_implicit_syn", memcpy_2d_synchronizes},
    {"28_cuda_memset2d_implicit_syn", memset_2d_orders},
    {"29_tsan_cuda_to_mpi", cuda_to_mpi},
    {"30_tsan_annotate_cuda_to_mpi", cuda_to_mpi},
    {"31_tsan_cuda_event", event_between_streams},
    {"32_tsan_async_copy", async_copy},
    {"33_tsan_wait_event", wait_event},
    {"34_negative_array", negative_index, false},
    {"35_struct_null", null_in_a_struct},
};
static_assert(std::size(kCases) == 43);

}  // namespace

TEST_CASE("the cases of CuSan have the verdicts of the table in the documentation", "[cusan]") {
  for (const Case& one : kCases) {
    CAPTURE(one.name);
    for (const Form form : {Form::racy, Form::mended}) {
      CAPTURE(form == Form::racy);
      const Races races;
      one.run(form);
      CHECK((races.count() != 0) == (form == Form::racy ? one.racy_is_named : one.mended_is_named));
    }
  }
}
