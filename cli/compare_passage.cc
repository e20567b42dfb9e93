// SPDX-License-Identifier: Apache-2.0
// The text of docs/passage.txt, at hand wherever the command is installed.
#include "cli/compare_effect.h"

namespace locant::cli {

std::string_view bundled_passage() noexcept {
  return "The morning was so fine that Mrs. Hale proposed a walk to the village, and nobody could find a "
         "reason against it. Her\n"
         "eldest daughter took a basket, because she was sure of wanting one; the younger took nothing at "
         "all, and was the first\n"
         "at the gate. They had not gone half a mile before they met their neighbour, who was returning from "
         "the post with more\n"
         "letters than he knew how to hold, and who was very willing to be relieved of some of them by "
         "telling what was in the\n"
         "rest. His sister was to be married in the spring; his cousin had let the house by the sea, and to "
         "people of whom he had\n"
         "heard nothing but good; and his uncle, whom they would remember as a man of few words, had written "
         "four pages upon the\n"
         "price of corn. \"I never knew him say so much in a year,\" said he, \"and I have read it twice, to "
         "be certain that there\n"
         "is nothing else in it.\" Mrs. Hale was of opinion that a long letter was always a kind one. Her "
         "daughters did not\n"
         "dispute it, for they were looking at the road, where a carriage had stopped that neither of them "
         "had ever seen before.";
}

}  // namespace locant::cli
