#include <apps/serve/http/inflate.hpp>
#include <apps/serve/protocol/front_state.hpp>

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

// 15 is the largest window; 32 more: with the header of zlib or of gzip, whichever is there.
constexpr int any_header = 15 + 32;
constexpr std::size_t inflate_step = 64U << 10;

/// zlib's state, freed at the end.
struct Unpacker {
  z_stream stream{};
  bool ready = ::inflateInit2(&stream, any_header) == Z_OK;

  Unpacker() = default;
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  ~Unpacker() {
    if (ready)
      ::inflateEnd(&stream);
  }
};

Result<void> check_growth(BodyBuffer::Growth growth) {
  if (growth == BodyBuffer::Growth::too_large)
    return fail(Errc::infeasible, "the request is larger than allowed when it is unpacked");
  if (growth == BodyBuffer::Growth::no_room)
    return fail(Errc::unavailable, std::string{held_too_much});
  return {};
}

} // namespace

Result<void> inflate(const Bytes& packed, BodyBuffer& body) {
  Unpacker unpacker;
  auto& stream = unpacker.stream;
  if (!unpacker.ready || packed.size() > std::numeric_limits<uInt>::max())
    return fail(Errc::unavailable, std::string{held_too_much});
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.view().data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  int status = Z_OK;
  std::byte last{};
  while (status == Z_OK) {
    const auto step = std::min(inflate_step, body.left());
    if (step > 0)
      GPUACTORS_TRY(check_growth(body.reserve(step)));
    // At the bound, a single byte tells whether there is more.
    const auto room = step > 0 ? body.free().first(step) : std::span{&last, 1};
    stream.next_out = reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = static_cast<uInt>(room.size());
    status = ::inflate(&stream, Z_NO_FLUSH);
    const auto written = room.size() - stream.avail_out;
    if (step == 0 && written > 0)
      return check_growth(BodyBuffer::Growth::too_large);
    body.fill(step > 0 ? written : 0);
    if (status == Z_OK && written == 0 && stream.avail_in == 0)
      break;
  }
  if (status != Z_STREAM_END)
    return fail(Errc::invalid_argument, fmt::format("the body cannot be unpacked: {}",
                                                    status == Z_OK || status == Z_BUF_ERROR ? "it ends too early"
                                                    : stream.msg != nullptr                 ? stream.msg
                                                                                            : "it is damaged"));
  if (stream.avail_in > 0)
    return fail(Errc::invalid_argument, "the body goes on behind what is packed");
  return {};
}

} // namespace serve
