#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/suggest.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace gpuactors {

namespace {

bool contains(std::string_view a, std::string_view b) {
  return !b.empty() && a.find(b) != std::string_view::npos;
}

} // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> row(b.size() + 1, i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::move(last);
    last = std::move(row);
  }
  return last.back();
}

std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& known, std::size_t most) {
  // Nothing is named like this. Peers may send names of any length, and whoever answers them has others to serve.
  if (name.size() > 2 * limits::name_length)
    return {};
  std::vector<std::pair<std::size_t, const std::string*>> ranked;
  for (const auto& candidate : known) {
    const auto distance = edit_distance(name, candidate);
    const auto near = distance <= std::max<std::size_t>(1, std::max(name.size(), candidate.size()) / 3);
    if (near || contains(candidate, name) || contains(name, candidate))
      ranked.emplace_back(distance, &candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> result;
  for (const auto& [distance, candidate] : ranked)
    if (result.size() < most)
      result.push_back(*candidate);
  return result;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  if (known.empty())
    return {};
  const auto nearest = nearest_names(name, known);
  if (!nearest.empty())
    return fmt::format("; did you mean \"{}\"?", fmt::join(nearest, "\" or \""));
  constexpr std::size_t most = 12;
  const auto shown = std::vector<std::string>(
      known.begin(), known.begin() + static_cast<std::ptrdiff_t>(std::min(known.size(), most)));
  return fmt::format("; there is \"{}\"{}", fmt::join(shown, "\", \""), known.size() > most ? ", ..." : "");
}

} // namespace gpuactors
