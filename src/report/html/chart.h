// SPDX-License-Identifier: Apache-2.0
// Points and lines over two axes, as an SVG that fills whatever width it is given, with its key, a title, a
// description and the numbers in a table beside it.
#pragma once

#include <string>
#include <vector>

#include "report/html/axis.h"
#include "report/html/table.h"

namespace locant::html {

/// How a series is drawn: told apart by shape, not by colour alone.
enum class Mark : std::uint8_t {
  line,
  dashes,
  dots,
  rings,   ///< hollow dots
  squares  ///< hollow
};

/// Which of the page's colours.
enum class Tone : std::uint8_t { main, other, quiet };

struct Series {
  std::string name{};
  std::vector<double> x{};
  std::vector<double> y{};  ///< as many; what is not finite is left out
  std::vector<double> low{};
  std::vector<double> high{};  ///< ends of intervals, or empty
  std::vector<Mark> marks{Mark::dots};
  Tone tone = Tone::main;
};

/// A value with a name: a line across.
struct Reference {
  double value = 0;
  std::string name{};
};

struct Chart {
  std::string title{};
  std::string description{};  ///< what to see in it, a sentence or two
  std::string x_label{};
  std::string y_label{};
  Scale x_scale = Scale::linear;
  Scale y_scale = Scale::linear;
  std::vector<Series> series{};
  std::vector<Reference> at_x{};
  std::vector<Reference> at_y{};
  Table numbers{};  ///< without rows: made of the series
};

void draw(Markup& page, const Chart& chart);

/// An SVG of the page: role img, named by its title and description. Close it with Markup::close().
void open_picture(Markup& page, std::string_view css_class, const std::string& title,
                  const std::string& description);
/// "37.25%"
[[nodiscard]] std::string percent(double share);

}  // namespace locant::html
