#include "frames.hpp"

namespace gpuactors::transport {

namespace {

// The first bytes of a frame: "GAQ", "GAT" or "GAA", and the version. The fields follow in little endian.
constexpr std::uint64_t request_mark = 0x01'51'41'47;
constexpr std::uint64_t taken_mark = 0x01'54'41'47;
constexpr std::uint64_t answer_mark = 0x01'41'41'47;
constexpr std::uint64_t maps_flag = 1;
constexpr std::uint64_t device_flag = 2;
constexpr std::size_t mark_at = 0;
constexpr std::size_t kind_at = 4; // the flags of a request, the status of an answer
constexpr std::size_t id_at = 8;
constexpr std::size_t bytes_at = 16;
constexpr std::size_t server_at = 24; // 0 in an answer

void put(Frame& frame, std::size_t at, std::size_t width, std::uint64_t value) {
  for (std::size_t i = 0; i < width; ++i)
    frame[at + i] = static_cast<std::byte>(value >> (8 * i));
}

std::uint64_t get(const Frame& frame, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i)
    value |= std::to_integer<std::uint64_t>(frame[at + i]) << (8 * i);
  return value;
}

} // namespace

Frame encode(const Request& request) {
  Frame frame{};
  put(frame, mark_at, 4, request.taken ? taken_mark : request_mark);
  put(frame, kind_at, 4, (request.maps ? maps_flag : 0) | (request.opens_device ? device_flag : 0));
  put(frame, id_at, 8, request.id);
  put(frame, bytes_at, 8, request.bytes);
  put(frame, server_at, 8, request.server);
  return frame;
}

Frame encode(const Answer& answer) {
  Frame frame{};
  put(frame, mark_at, 4, answer_mark);
  put(frame, kind_at, 4, static_cast<std::uint64_t>(answer.status));
  put(frame, id_at, 8, answer.id);
  put(frame, bytes_at, 8, answer.bytes);
  return frame;
}

std::optional<Request> decode_request(const Frame& frame) {
  const auto mark = get(frame, mark_at, 4);
  const auto flags = get(frame, kind_at, 4);
  const bool taken = mark == taken_mark;
  if ((mark != request_mark && !taken) || flags > (taken ? 0U : maps_flag | device_flag))
    return std::nullopt;
  return Request{get(frame, server_at, 8), get(frame, id_at, 8),       get(frame, bytes_at, 8),
                 (flags & maps_flag) != 0, (flags & device_flag) != 0, taken};
}

std::optional<Answer> decode_answer(const Frame& frame) {
  const auto status = get(frame, kind_at, 4);
  if (get(frame, mark_at, 4) != answer_mark || status < static_cast<std::uint64_t>(Status::streamed)
      || status > static_cast<std::uint64_t>(Status::on_device) || get(frame, server_at, 8) != 0)
    return std::nullopt;
  return Answer{static_cast<Status>(status), get(frame, id_at, 8), get(frame, bytes_at, 8)};
}

} // namespace gpuactors::transport
