"""Names of months and days, and the phrases that present a date or time as the current one, as parts of patterns.

Names and abbreviations are those of the Unicode CLDR, release 48, as the programs of most systems print them
(https://cldr.unicode.org). Left out are abbreviations that are common words, such as "des" and "pro" for December.
"""

from __future__ import annotations

from itertools import groupby

_MONTHS = (
    "january february march april may june july august september october november december",
    "jan feb mar apr jun jul aug sep sept oct nov dec",  # English
    "januar jänner februar märz mai juni juli oktober dezember mär mrz okt dez",  # German
    "janvier février mars avril juin juillet août septembre octobre novembre décembre janv févr fév avr juil déc",  # French
    "enero febrero marzo abril mayo junio julio agosto septiembre setiembre octubre noviembre diciembre",
    "ene abr ago dic",  # Spanish
    "gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre gen mag giu lug set ott",  # Italian
    "janeiro fevereiro março maio junho julho setembro outubro novembro dezembro fev out",  # Portuguese
    "januari februari maart mei augustus mrt",  # Dutch
    "maj augusti marts desember",  # Swedish, Danish, Norwegian
    "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",  # Polish
    "ledna února března dubna května června července srpna září října listopadu prosince",  # Czech
    "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь",
    "янв февр фев мар апр июн июл авг сент сен окт нояб ноя дек",  # Russian
    "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",  # Turkish
)
_DAYS = (
    "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun",
    "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lunes martes miércoles jueves viernes sábado domingo",
    "lunedì martedì mercoledì giovedì venerdì sabato domenica",
    "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira",
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
    "måndag tisdag onsdag torsdag fredag lördag söndag mandag tirsdag lørdag søndag",
    "poniedziałek wtorek środa czwartek piątek sobota niedziela",
    "понедельник вторник среда четверг пятница суббота воскресенье",
    "pazartesi salı çarşamba perşembe cuma cumartesi pazar",
)
# Abbreviations that are common words: part of a date, but no date of their own.
_SHORT_DAYS = (
    "mo di mi do fr sa so lun mar mer jeu ven sam dim lu ma me je ve sá mié jue vie sáb dom gio sab seg ter qua qui sex"
    " wo vr za zo mån tis ons tor tors fre lör sön man tir tirs lør søn pon wt śr czw pt sob niedz"
    " пн вт ср чт пт сб вс"
)


def _any_of(*lists: str) -> str:
    """Returns a pattern for the words of several lists: in small letters, in capitals, or with a capital first.

    Words are grouped by their first character, so that most positions of a text are rejected by one comparison:
    "may mars nov" becomes `(?:m(?:ars|ay)|M(?:ars|ay|ARS|AY)|n(?:ov)|N(?:ov|OV))`.
    """
    words = {form for word in " ".join(lists).split() for form in (word.lower(), word.capitalize(), word.upper())}
    # The longest first: "sept" would stop in front of the end of "september".
    ordered = sorted(words, key=lambda word: (word[0], -len(word), word))
    groups = (f"{first}(?:{'|'.join(word[1:] for word in group)})" for first, group in groupby(ordered, lambda w: w[0]))
    return f"(?:{'|'.join(groups)})"


MONTH = _any_of(*_MONTHS)
"""The name of a month, without the dot of an abbreviation."""

_EAST_ASIAN_DAY = r"(?:[月火水木金土日]曜日?|(?:星期|周|週|禮拜|礼拜)[一二三四五六日天]|[월화수목금토일]요일)"
DAY_NAME = rf"(?:{_any_of(*_DAYS)}\b|{_EAST_ASIAN_DAY})"
"""The name of a day of the week that is a date on its own."""

DAY_LABEL = rf"(?:{_any_of(*_DAYS, _SHORT_DAYS)}\b|{_EAST_ASIAN_DAY}|[月火水木金土日월화수목금토일](?=\)))"
"""The name of a day of the week as part of a date."""

# What precedes a moment that is presented as the current one: with a verb of its own, one language a line.
_CURRENT_CLAUSES = "|".join(
    (
        r"it(?: is|['’]s) (?:now|currently)|right now,? it(?: is|['’]s)|the (?:date|time|day|month) is(?: now)?"
        r"|we are (?:now|currently) in|(?:generated|rendered|built|compiled|updated) (?:at|on)",
        r"wir haben (?:heute|jetzt|den)|heute haben wir|es ist(?: jetzt| gerade| nun)?|jetzt ist es",
        r"nous sommes(?: aujourd['’]hui)?|on est(?: le| en)?|il est(?: maintenant| actuellement)?",
        r"estamos (?:a|en)|ahora (?:es|son)|son las",
        r"sono le(?: ore)?|siamo (?:a|in)|são|estamos em|het is(?: nu)?|klockan är|klokken er|jest teraz|сейчас|сегодня|bugün",
    )
)
# The same as names: the moment follows a verb, a colon or the like.
_CURRENT_NAMES = "|".join(
    (
        r"today(?:['’]s)?(?: date| day)?(?:(?: and|/) ?time)?|(?:date|day|time|month|year) (?:today|now|right now)",
        r"(?:current|present|local|system)[ _-]?(?:date|day|time|month|year|week(?:day)?|quarter|clock|moment)"
        r"(?:(?: and |[ _/-]| & )?(?:time|date|year|zone time))?|currentdatetime|current[ _-]?timestamp",
        r"now",
        r"heute|datum (?:von )?heute|(?:heutige|aktuelle|jetzige|derzeitige|gegenwärtige|laufende)[srn]?"
        r" (?:datum|tag|zeit|uhrzeit|monat|jahr|woche|wochentag|zeitpunkt)(?: und (?:die )?(?:uhr)?zeit)?",
        r"aujourd['’]hui|(?:date|heure|mois|année|jour|semaine)(?: et (?:l['’])?heure)?"
        r" (?:actuel(?:le)?s?|courante?|du jour|en cours|d['’]aujourd['’]hui)",
        r"hoy|(?:fecha|hora|mes|año|día|semana)(?: y (?:la )?hora)? (?:actual(?:es)?|de hoy|en curso)",
        r"oggi|(?:data|ora|mese|anno|giorno)(?: e (?:l['’])?ora)? (?:odiern[ao]|attual[ei]|corrente|di oggi)",
        r"hoje|(?:data|hora|mês|ano|dia)(?: e (?:a )?hora)? (?:atua(?:l|is)|de hoje|corrente)",
        r"vandaag|(?:huidige|actuele) (?:datum|dag|tijd|maand|jaar|week)|i ?dag|dagens (?:datum|dato)|dzisiaj|dziś|dnes",
        r"(?:bieżąca|aktualna|dzisiejsza) data|текущ(?:ая дата|ее время|ий месяц|ий год)",
    )
)
_EAST_ASIAN_CURRENT = (
    r"(?:今日|本日|きょう|現在|今(?=は)|今月|今年|今天|当前|當前|目前|现在|此刻|本月)の?的?"
    r"(?:系统|系統)?(?:(?:日付|日時|年月|日期|时刻|時刻|时间|時間|月份|年份|星期|曜日|年|月)(?:[和と及/]?(?:时间|時間|時刻|日時))?)?"
    r"|(?:오늘|현재|지금|금일|이번 ?달|올해)의?(?: ?(?:날짜|시각|시간|일시|요일|연도|월)(?: 및 시간)?)?"
)
# What stands between such a phrase and the moment: "(UTC)", "in Berlin", '": "', "**:**", "is", "the", "Monday,".
_BETWEEN = (
    r"(?: ?\([^()\n]{1,40}\))?(?: (?:in|for|at) [A-Z][\w/]{1,20})?[^\w\n]{0,6}"
    r"(?:(?P<verb>(?:is|are|was|equals|set to|ist|c['’]est|nous sommes|est|es|son|è|é|is het|jest|är|er|je|это)\b|[はが是为為]"
    r"|[은는이가](?=\W))[^\w\n]{0,5})?"
    r"(?:(?:now|currently|the|jetzt|gerade|der|den|die|le|la|las|el|il|lo|o|a|het|de|dia|día|on)\b[^\w\n]{1,3}){0,2}"
)
PRESENTED = (
    rf"(?:(?<![^\W_])(?i:{_CURRENT_CLAUSES}|(?P<name>{_CURRENT_NAMES}))(?![^\W_])|{_EAST_ASIAN_CURRENT})"
    rf"(?P<between>{_BETWEEN}"
    rf"(?:{DAY_LABEL}\.?[^\w\n]{{1,3}}(?:(?:the|der|den|le|el|,) ?)?)?)"
)
"""What presents the moment that follows as the current one, as in "Today is Monday, the ".

Groups: `name` is a phrase without a verb, which needs group `verb` or a colon or the like in group `between`.
"""

CONDITION = (
    r"(?:\b(?:if|when(?:ever)?|whether|unless|until|once|assum\w+|suppose|imagine|say|wenn|falls|si|quand|cuando|se|als"
    r"|если)|もし|如果|若|假设|만약)[^\w\n]{0,3}(?:(?:that|the|das|der|la|le|el|dass|que) )?$"
)
"""What makes a condition of the phrase after it, which then presents nothing: "if today is Monday"."""

AS_OF = (
    r"(?:(?<!\w)(?:(?i:as of|as at|last (?:updated|modified|changed|revised)(?: on| in)?|(?:zuletzt )?aktualisiert(?: am| im)?"
    r"|letzte aktualisierung|état au|mis à jour (?:le|en)|dernière mise à jour|a fecha de|actualizado (?:el|en)"
    r"|última actualización)|Stand(?: vom)?)[^\w\n]{1,4}(?:(?:the|der|le|el|early|mid|late) )?|截至|截止)"
)
"""What says as of when a statement holds, which follows it: "as of Nov 2026"."""

AS_OF_AFTER = r" ?(?:時点|现在|現在|기준|현재)"
"""What says the same behind the moment in Japanese, Chinese and Korean."""
