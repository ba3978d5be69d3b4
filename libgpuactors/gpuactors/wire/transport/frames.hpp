// The protocol of a bulk data connection: a request of fixed size, an answer of fixed size, then the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gpuactors::transport {

inline constexpr std::size_t frame_bytes = 32;

using Frame = std::array<std::byte, frame_bytes>;

/// Asks for one region.
struct Request {
  /// The number of the intended server, because another server may have got its port.
  std::uint64_t server = 0;
  std::uint64_t id = 0;
  /// The expected size of the region.
  std::uint64_t bytes = 0;
  /// Whether the client can map the region.
  bool maps = false;
  /// Whether the client can open device memory; it is then on the same machine.
  bool opens_device = false;
  /// Whether this is a report that the region has arrived: it has no answer, and `bytes` holds the number of the
  /// hand-over, which ends.
  bool taken = false;
};

/// A server's answer. The numbers are part of the wire format: append only.
enum class Status : std::uint8_t {
  /// The bytes follow.
  streamed = 1,
  /// Descriptors of the memory came with this answer.
  mapped = 2,
  /// There is no region under this id.
  not_found = 3,
  /// The region has another size.
  other_size = 4,
  /// This is not the intended server.
  other_server = 5,
  /// The region's memory is lost because its owner has ended.
  lost = 6,
  /// The region could not be copied to host memory.
  failed = 7,
  /// The region is on a device: descriptors for opening it came with this answer.
  on_device = 8,
};

struct Answer {
  Status status = Status::not_found;
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
};

[[nodiscard]] Frame encode(const Request& request);
[[nodiscard]] Frame encode(const Answer& answer);

/// Return nothing if the frame is no request, or no answer, of this version.
[[nodiscard]] std::optional<Request> decode_request(const Frame& frame);
[[nodiscard]] std::optional<Answer> decode_answer(const Frame& frame);

} // namespace gpuactors::transport
