// SPDX-License-Identifier: Apache-2.0
// Ids of the rules about a config (family C). What they say stands in config_rules.cc.
#pragma once

#include <string_view>

namespace locant::rules {

inline constexpr std::string_view kConflictingKeys = "C101";
inline constexpr std::string_view kUnreadKey = "C102";
inline constexpr std::string_view kNearMissKey = "C103";
inline constexpr std::string_view kNullValue = "C104";
inline constexpr std::string_view kWrongJsonType = "C105";
inline constexpr std::string_view kNotReadHere = "C106";
inline constexpr std::string_view kFactorAgainstLengths = "C107";
inline constexpr std::string_view kUnknownRopeType = "C108";
inline constexpr std::string_view kRecipeLacksSchedule = "C109";
inline constexpr std::string_view kRecipeReadsOtherwise = "C110";
inline constexpr std::string_view kMissingKey = "C111";
inline constexpr std::string_view kLengthsContradict = "C112";
inline constexpr std::string_view kWrongListLength = "C113";
inline constexpr std::string_view kDefaultBaseTooSmall = "C114";
inline constexpr std::string_view kPartialRotationDisputed = "C115";
inline constexpr std::string_view kIdOutsideVocabulary = "C116";
inline constexpr std::string_view kBlockNewerThanVersion = "C117";

}  // namespace locant::rules
