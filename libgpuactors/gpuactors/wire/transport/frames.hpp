// What goes over a connection for bulk data: a request of fixed size, an answer of fixed size, then the bytes.
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
  /// The server that is meant: another one may have got its port.
  std::uint64_t server = 0;
  std::uint64_t id = 0;
  /// How large it should be.
  std::uint64_t bytes = 0;
  /// Whether the client can map it.
  bool maps = false;
  /// Whether it can open device memory: then it is one of this machine.
  bool opens_device = false;
  /// Asks for nothing and gets no answer: the region has arrived, and the hand-over `bytes` of it ends.
  bool taken = false;
};

/// What a server has to say. The numbers are part of the wire format: append only.
enum class Status : std::uint8_t {
  /// The bytes follow.
  streamed = 1,
  /// Descriptors of the memory came with this answer.
  mapped = 2,
  /// There is nothing under this id.
  not_found = 3,
  /// It has another size.
  other_size = 4,
  /// This is not the server that was meant.
  other_server = 5,
  /// The memory it lay in was taken from its owner, who has ended.
  lost = 6,
  /// It could not be brought to where it can be read.
  failed = 7,
  /// It lies on a device: descriptors to open it by came with this answer.
  on_device = 8,
};

struct Answer {
  Status status = Status::not_found;
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
};

[[nodiscard]] Frame encode(const Request& request);
[[nodiscard]] Frame encode(const Answer& answer);

/// Nothing for what is no request, or no answer, of this version.
[[nodiscard]] std::optional<Request> decode_request(const Frame& frame);
[[nodiscard]] std::optional<Answer> decode_answer(const Frame& frame);

} // namespace gpuactors::transport
