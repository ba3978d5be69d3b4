#include "line_cutter.hpp"

#include <gpuactors/base/utf8.hpp>

#include <fmt/format.h>

#include <cassert>

namespace gpuactors::detail {

LineCutter::LineCutter(std::size_t most) : most_(most) {
  assert(most >= 4);
}

void LineCutter::feed(std::string_view bytes, const Sink& sink) {
  for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    add(bytes.substr(0, end));
    hand_over(sink);
    bytes.remove_prefix(end + 1);
  }
  add(bytes);
}

void LineCutter::finish(const Sink& sink) {
  if (!line_.empty())
    hand_over(sink);
}

void LineCutter::add(std::string_view bytes) {
  const auto kept = bytes.substr(0, most_ - line_.size());
  line_ += kept;
  left_out_ += bytes.size() - kept.size();
}

void LineCutter::hand_over(const Sink& sink) {
  if (left_out_ > 0) {
    const auto begun = begun_at_end(line_);
    line_.resize(line_.size() - begun);
    sink(to_utf8(line_) + fmt::format(" [{} more bytes]", left_out_ + begun));
  } else {
    if (!line_.empty() && line_.back() == '\r')
      line_.pop_back();
    sink(to_utf8(line_));
  }
  line_.clear();
  left_out_ = 0;
}

} // namespace gpuactors::detail
