#include <gpuactors/base/units.hpp>
#include <gpuactors/plan/detail/svg.hpp>
#include <gpuactors/plan/detail/timeline.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ostream>

namespace gpuactors::plan_detail {

namespace {

constexpr double plot_width = 1000;
constexpr double top = 46;
constexpr double right = 40;
constexpr double waiting_height = 44;
constexpr double character = 6.6; // average width of one in the labels of lanes

// The colours tell neighbours apart, carry dark text, and stand out from a light and from a dark page.
constexpr std::array<std::string_view, 12> colours = {"#8ecae6", "#f4a261", "#90be6d", "#e5989b", "#c8b6ff", "#f6d55c",
                                                      "#7fd1ae", "#f28482", "#a8c5f0", "#d4a373", "#b5e48c", "#f7aef8"};

constexpr std::string_view style = R"(<style>
  svg { font: 12px system-ui, "DejaVu Sans", sans-serif; }
  .page { fill: #ffffff; } .lane { fill: #eef0f2; } .text { fill: #1f2328; } .soft { fill: #57606a; }
  .grid { stroke: #c4c9cf; stroke-width: 0.5; } .lease { stroke: #1f2328; stroke-width: 0.6; } .name { fill: #14181c; }
  .bundle { fill: none; stroke: #57606a; stroke-width: 1.2; stroke-dasharray: 4 2; }
  .gone { fill: #aab1b9; fill-opacity: 0.75; } .drain { fill: #aab1b9; fill-opacity: 0.35; } .wait { fill: #c2410c; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .lane { fill: #1c232b; } .text { fill: #e6edf3; } .soft { fill: #9aa4af; }
    .grid { stroke: #3b434c; } .lease { stroke: #0d1117; } .bundle { stroke: #c4c9cf; }
    .gone { fill: #4a525b; } .drain { fill: #4a525b; fill-opacity: 0.5; } .wait { fill: #fb923c; }
  }
</style>
)";

// Shortens a text to `most` characters, the last of them a mark. Never cuts within a character of several bytes.
std::string shorten(const std::string& text, std::size_t most) {
  std::size_t characters = 0;
  std::size_t cut = text.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80)
      continue;
    if (characters + 1 == most)
      cut = i;
    if (++characters > most)
      return text.substr(0, cut) + "…";
  }
  return text;
}

// Returns 1, 2 or 5 times a power of ten, so that at most `most` fit into `range`.
std::size_t tick_every(std::size_t range, std::size_t most) {
  std::size_t step = 1;
  while (true)
    for (const auto factor : {std::size_t{1}, std::size_t{2}, std::size_t{5}}) {
      if (range / (factor * step) <= most)
        return factor * step;
      if (factor == 5)
        step *= 10;
    }
}

class Drawing {
public:
  Drawing(std::ostream& out, const Timeline& timeline) : out_(out), timeline_(timeline) {
    const auto count = static_cast<double>(std::max<std::size_t>(1, timeline.devices.size()));
    lane_ = std::clamp(1200 / count, 10.0, 44.0);
    for (const auto& [device, type] : timeline.devices) {
      rows_.emplace(device, rows_.size());
      left_ = std::max(left_, character * static_cast<double>(std::min<std::size_t>(title(device).size(), 28)) + 20);
    }
  }

  void draw() {
    const auto bottom = top + lane_ * static_cast<double>(rows_.size());
    const auto notes = notes_of();
    const bool waits = !timeline_.waiting.empty();
    const auto height = bottom + 26 + (waits ? waiting_height + 22 : 0) + 16 * static_cast<double>(notes.size()) + 8;
    const auto width = left_ + plot_width + right;
    out_ << fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
                        "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n",
                        width, height)
         << style << fmt::format("<rect class=\"page\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n", width, height);
    text(left_, 18, "text", "start", fmt::format("Leases on {} devices over {} steps", rows_.size(), timeline_.steps));
    lanes();
    grid(bottom);
    for (const auto& block : timeline_.blocks)
      rectangle(block);
    auto y = bottom + 26;
    if (waits) {
      waiting(y);
      y += waiting_height + 22;
    }
    for (const auto& note : notes)
      text(left_, std::exchange(y, y + 16) + 8, "soft", "start", note);
    out_ << "</svg>\n";
  }

private:
  static std::string title(const DeviceKey& device) {
    return fmt::format("{} {}", device.first, device.second);
  }

  [[nodiscard]] double x_of(std::size_t step) const {
    const auto steps = std::max<std::size_t>(1, timeline_.steps);
    return left_ + plot_width * static_cast<double>(std::min(step, steps)) / static_cast<double>(steps);
  }

  void text(double x, double y, std::string_view kind, std::string_view anchor, const std::string& content) {
    out_ << fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", kind, x, y,
                        anchor, escape_xml(content));
  }

  void lanes() {
    for (const auto& [device, row] : rows_) {
      const auto y = top + lane_ * static_cast<double>(row);
      out_ << fmt::format("<rect class=\"lane\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>"
                          "{}</title></rect>\n",
                          left_, y + 1, plot_width, lane_ - 2,
                          escape_xml(title(device) + " " + timeline_.devices.at(device)));
      if (lane_ >= 12 || row % 2 == 0)
        text(left_ - 8, y + lane_ / 2 + 4, "text", "end", shorten(title(device), 28));
    }
  }

  void grid(double bottom) {
    const auto every = tick_every(timeline_.steps, 16);
    for (std::size_t step = 0; step <= timeline_.steps; step += every) {
      out_ << fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n",
                          x_of(step), top - 4, bottom);
      text(x_of(step), top - 8, "soft", "middle", std::to_string(step));
      if (!timeline_.times.empty() && step < timeline_.steps)
        text(x_of(step), bottom + 14, "soft", "middle", fmt::format("{:.4g} s", seconds_at(step)));
    }
    text(left_ - 20, top - 8, "soft", "end", "step");
    if (!timeline_.times.empty())
      text(left_ - 20, bottom + 14, "soft", "end", "time");
  }

  // Returns the seconds that have passed before the step.
  [[nodiscard]] double seconds_at(std::size_t step) const {
    double seconds = 0;
    for (const auto& [from, passed] : timeline_.times)
      if (from < step)
        seconds = passed;
    return seconds;
  }

  void rectangle(const Block& block) {
    const auto inset = std::min(2.0 * block.depth, lane_ / 6);
    const auto scale = (lane_ - 3) / static_cast<double>(Share::one);
    // The lowest segment lies at the bottom of the lane.
    const auto base = top + lane_ * static_cast<double>(rows_.at(block.device) + 1) - 1.5;
    const auto y = base - scale * static_cast<double>(block.segment.high) + inset / 2;
    const auto height = std::max(1.0, scale * static_cast<double>(block.segment.high - block.segment.low) - inset);
    const auto x = x_of(block.from);
    const auto width = std::max(1.5, x_of(block.to) - x);
    const bool ended = block.to != Block::open;
    const bool is_lease = block.kind == Block::Kind::lease;
    const auto* kind = is_lease                              ? "lease"
                       : block.kind == Block::Kind::bundle   ? "bundle"
                       : block.kind == Block::Kind::draining ? "drain"
                                                             : "gone";
    const auto label = block.name.empty() ? title(block.device) : block.name;
    out_ << fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"", kind, x, y,
                        width, height);
    if (is_lease)
      out_ << fmt::format(" fill=\"{}\"{}", colours[block.number % colours.size()],
                          lane_ < 20 ? " style=\"stroke-width:0.15\"" : "");
    out_ << fmt::format("><title>{}: {}, steps {} to {}</title></rect>\n", escape_xml(label), escape_xml(block.details),
                        block.from, ended ? std::to_string(block.to) : "the end");
    const auto room = static_cast<std::size_t>(std::max(0.0, (width - 6) / character));
    // Bundles and draining lie over leases: their text would hide the leases' names.
    const bool covers = block.kind == Block::Kind::bundle || block.kind == Block::Kind::draining;
    const auto& shown = is_lease ? block.name : covers ? std::string{} : block.details;
    if (room >= 1 && height >= 9 && !shown.empty() && (room >= 4 || shown.size() <= room))
      out_ << fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.0f}\">{}</text>\n",
                          is_lease ? "name" : "text", x + 3, y + height / 2 + 4, std::min(11.0, height - 1),
                          escape_xml(shorten(shown, room)));
  }

  void waiting(double y) {
    std::size_t most = 1;
    for (const auto& [step, count] : timeline_.waiting)
      most = std::max(most, count);
    const auto base = y + waiting_height;
    auto path = fmt::format("M{:.1f} {:.1f}", left_, base);
    double level = base;
    for (const auto& [step, count] : timeline_.waiting) {
      const auto next = base - waiting_height * static_cast<double>(count) / static_cast<double>(most);
      path += fmt::format("L{0:.1f} {1:.1f}L{0:.1f} {2:.1f}", x_of(step), level, next);
      level = next;
    }
    path += fmt::format("L{0:.1f} {1:.1f}L{0:.1f} {2:.1f}Z", x_of(timeline_.steps), level, base);
    out_ << fmt::format("<rect class=\"lane\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", left_,
                        y, plot_width, waiting_height)
         << fmt::format("<path class=\"wait\" d=\"{}\"><title>requests and groups that wait</title></path>\n", path);
    text(left_ - 8, y + 12, "text", "end", "waiting");
    text(left_ - 8, y + 28, "soft", "end", fmt::format("at most {}", most));
  }

  [[nodiscard]] std::vector<std::string> notes_of() const {
    std::vector<std::string> notes;
    if (!timeline_.devices_left_out.empty())
      notes.push_back(fmt::format("Shows {} of {} devices: a picture has no more than {} lanes.", rows_.size(),
                                  rows_.size() + timeline_.devices_left_out.size(), TimelineRecorder::most_devices));
    if (timeline_.stopped_at != Block::open)
      notes.push_back(fmt::format("Ends before step {}: a picture has no more than {} rectangles.",
                                  timeline_.stopped_at, TimelineRecorder::most_blocks));
    if (std::any_of(timeline_.blocks.begin(), timeline_.blocks.end(),
                    [](const Block& block) { return block.kind == Block::Kind::draining; }))
      notes.emplace_back("Grey over a lane: its node is draining.");
    if (std::any_of(timeline_.blocks.begin(), timeline_.blocks.end(),
                    [](const Block& block) { return block.kind == Block::Kind::bundle; }))
      notes.emplace_back("Dashed: set aside for a placement group.");
    return notes;
  }

  std::ostream& out_;
  const Timeline& timeline_;
  std::map<DeviceKey, std::size_t> rows_;
  double lane_ = 0;
  double left_ = 70;
};

} // namespace

std::string escape_xml(std::string_view text) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&apos;";
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r')
        result += replacement;
      else if (const auto character = text.substr(at, 3); character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF") {
        // U+FFFE and U+FFFF, which no XML document can have
        result += replacement;
        at += character.size() - 1;
      } else
        result += c;
    }
  }
  return result;
}

void draw_svg(std::ostream& out, const Timeline& timeline) {
  Drawing{out, timeline}.draw();
}

} // namespace gpuactors::plan_detail
