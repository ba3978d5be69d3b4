#include <gpuactors/base/revisions.hpp>
#include <gpuactors/base/version.hpp>
#include <gpuactors/wire/greeting.hpp>

#include <caf/io/basp/version.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace gpuactors::detail {

namespace {

constexpr std::string_view mark = "gpuactors revisions ";
constexpr std::string_view order = "the order is: a broker that stands by, the broker, nodes, clients; see \"Upgrade a "
                                   "cluster\" in the guide";

/// Takes the next word off `line`; empty if there is none.
std::string_view next_word(std::string_view& line) {
  const auto end = line.find(' ');
  const auto word = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return word;
}

template <class Number>
bool read_number(std::string_view word, Number& number) {
  const auto* end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, number);
  return error == std::errc{} && rest == end;
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

/// "release 0.2.0 with revisions 3 to 4"
std::string described(const Greeting& greeting) {
  if (greeting.oldest == greeting.newest)
    return fmt::format("release {} with revision {}", greeting.release, greeting.newest);
  return fmt::format("release {} with revisions {} to {}", greeting.release, greeting.oldest, greeting.newest);
}

} // namespace

Greeting own_greeting() {
  return {oldest_wire_revision, wire_revision, release, caf::io::basp::version};
}

std::string to_line(const Greeting& greeting) {
  return fmt::format("{}{} {} release {} caf {}\n", mark, greeting.oldest, greeting.newest, greeting.release,
                     greeting.caf);
}

std::optional<Greeting> read_greeting(std::string_view line) {
  if (line.size() >= greeting_most || !line.starts_with(mark) || !is_printable(line))
    return std::nullopt;
  line.remove_prefix(mark.size());
  Greeting greeting;
  if (!read_number(next_word(line), greeting.oldest) || !read_number(next_word(line), greeting.newest)
      || greeting.oldest > greeting.newest || next_word(line) != "release")
    return std::nullopt;
  greeting.release = next_word(line);
  if (greeting.release.empty() || next_word(line) != "caf" || !read_number(next_word(line), greeting.caf))
    return std::nullopt;
  return greeting;
}

bool may_be_greeting(std::string_view text) {
  return text.size() <= greeting_most
         && text.substr(0, mark.size()) == mark.substr(0, std::min(text.size(), mark.size()));
}

Result<std::uint32_t> agree(const Greeting& own, const Greeting& other, std::string_view who) {
  if (own.caf != other.caf)
    return fail(
        Errc::unsupported,
        fmt::format("{} runs release {} on version {} of CAF's protocol, and this process release {} on {}: all "
                    "processes of a cluster need one version of CAF",
                    who, other.release, other.caf, own.release, own.caf));
  const bool is_later = other.oldest > own.newest;
  if (is_later || other.newest < own.oldest)
    return fail(Errc::unsupported,
                fmt::format("{} runs {}, and this process {}: they do not understand each other; upgrade {} ({})", who,
                            described(other), described(own), is_later ? "this process" : "the other one", order));
  return std::min(own.newest, other.newest);
}

Error before_revisions(const Greeting& own, std::string_view who) {
  return {Errc::unsupported, fmt::format("{} runs a release from before revisions, and this process {}: they do not "
                                         "understand each other; upgrade the other one ({})",
                                         who, described(own), order)};
}

} // namespace gpuactors::detail
