// LastLines: what a worker's process wrote at last, which often says why it has ended. Pure.
#pragma once

#include <gpuactors/base/ids.hpp>
#include <gpuactors/v1/control.pb.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuactors {

/// The last line of each holder of one process, and the last one that does not say whose it is. One thread.
class LastLines {
public:
  /// @param writer the holder; null: the line does not say.
  /// @param text has no effect if it is empty: it would say nothing.
  void add(LeaseId writer, std::string_view text) {
    if (text.empty())
      return;
    auto& line = lines_[writer];
    line.text = text;
    line.number = ++last_;
    if (lines_.size() > most_lines)
      lines_.erase(std::min_element(lines_.begin(), lines_.end(), is_older));
  }

  /// Returns the end of a sentence about the process, with its last line; empty, if it wrote none.
  [[nodiscard]] std::string words() const {
    const auto latest = std::max_element(lines_.begin(), lines_.end(), is_older);
    return latest != lines_.end() ? fmt::format("; its last line was \"{}\"", latest->second.text) : std::string{};
  }

  /// The same about one of the holders: with its own last line, and with that of the process, unless another holder
  /// wrote it.
  /// @param alone the process was the holder's alone: what does not say whose it is, is its own.
  [[nodiscard]] std::string words_for(LeaseId holder, bool alone) const {
    const auto own = lines_.find(holder);
    const auto latest = std::max_element(lines_.begin(), lines_.end(), is_older);
    const bool of_nobody = latest != lines_.end() && !latest->first;
    if (of_nobody && alone)
      return words();
    if (of_nobody && own != lines_.end())
      return fmt::format("; its last line was \"{}\", and that of its process \"{}\"", own->second.text,
                         latest->second.text);
    if (of_nobody)
      return fmt::format("; the last line of its process was \"{}\"", latest->second.text);
    return own != lines_.end() ? fmt::format("; its last line was \"{}\"", own->second.text) : std::string{};
  }

  void write_to(v1::WorkerExited& message) const {
    std::vector<std::map<LeaseId, Line>::const_pointer> lines;
    for (const auto& line : lines_)
      lines.push_back(&line);
    std::sort(lines.begin(), lines.end(), [](const auto* left, const auto* right) { return is_older(*left, *right); });
    for (const auto* line : lines) {
      auto& written = *message.add_last_lines();
      written.set_lease(line->first.value());
      written.set_text(line->second.text);
    }
  }

  [[nodiscard]] static LastLines from(const v1::WorkerExited& message) {
    LastLines result;
    for (const auto& line : message.last_lines())
      result.add(LeaseId{line.lease()}, line.text());
    return result;
  }

private:
  /// A process may have had any number of holders: those that wrote long ago are forgotten.
  static constexpr std::size_t most_lines = 256;

  struct Line {
    std::string text;
    /// In the order of all lines.
    std::uint64_t number = 0;
  };

  static bool is_older(const std::pair<const LeaseId, Line>& left, const std::pair<const LeaseId, Line>& right) {
    return left.second.number < right.second.number;
  }

  std::map<LeaseId, Line> lines_;
  std::uint64_t last_ = 0;
};

} // namespace gpuactors
