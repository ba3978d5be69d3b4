// A timeline as a picture.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

namespace gpuactors::plan_detail {

struct Timeline;

/// Text as it may stand in XML, in an attribute too. Characters that XML has no way to write become U+FFFD.
[[nodiscard]] std::string escape_xml(std::string_view text);

/// Draws steps from left to right, a lane for each device, a rectangle for each lease, as high as its share; below, how
/// many wait. Pure.
void draw_svg(std::ostream& out, const Timeline& timeline);

} // namespace gpuactors::plan_detail
