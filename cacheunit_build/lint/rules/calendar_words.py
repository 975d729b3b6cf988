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
    "janvier février mars avril juin juillet août septembre octobre novembre décembre",
    "janv févr fév avr juil juill déc",  # French
    "enero febrero marzo abril mayo junio julio agosto septiembre setiembre octubre noviembre diciembre",
    "ene abr ago dic",  # Spanish
    "gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre gen mag giu lug set ott",  # Italian
    "janeiro fevereiro março maio junho julho setembro outubro novembro dezembro fev out",  # Portuguese
    "januari februari maart mei augustus mrt",  # Dutch
    "maj augusti marts desember",  # Swedish, Danish, Norwegian
    "styczeń luty marzec kwiecień czerwiec lipiec sierpień wrzesień październik listopad grudzień",
    "sty lut kwi cze lip sie wrz paź lis gru",
    "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",  # Polish
    "leden únor březen duben květen červen červenec srpen říjen prosinec",
    "ledna února března dubna května června července srpna září října listopadu prosince",  # Czech
    "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь",
    "янв февр фев мар апр июн июл авг сент сен окт нояб ноя дек",  # Russian
    "січень лютий березень квітень травень червень липень серпень вересень жовтень листопад грудень",
    "січ лют бер квіт трав черв лип серп вер жовт лист груд",
    "січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня",  # Ukrainian
    "tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta lokakuuta",
    "marraskuuta joulukuuta tammikuu helmikuu maaliskuu huhtikuu toukokuu kesäkuu heinäkuu elokuu syyskuu lokakuu",
    "marraskuu joulukuu",  # Finnish
    "január február március április május június július augusztus szeptember október november december",
    "febr márc ápr máj jún júl szept",  # Hungarian
    "ianuarie februarie martie aprilie iunie iulie septembrie octombrie noiembrie decembrie ian iun iul",  # Romanian
    "oca şub nis haz tem ağu eyl eki kas ara",
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
    "понеділок вівторок середа четвер пʼятниця субота неділя",
    "pondělí úterý středa čtvrtek pátek neděle",
    "hétfő kedd szerda csütörtök péntek szombat vasárnap",
    "luni marți miercuri joi vineri sâmbătă duminică",
    "maanantai tiistai keskiviikko torstai perjantai lauantai sunnuntai",
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


def _phrases(table: tuple[tuple[str, str], ...]) -> str:
    """Returns a pattern for phrases in any case, grouped by the first letter.

    Args:
        table: rows of the beginnings of phrases, and what follows each of them.

    The table (("day|date", " is"), ("time", "")) becomes `(?:[dD](?i:(?:ay|ate)(?: is))|[tT](?i:(?:ime)(?:)))`.
    """
    groups: dict[str, list[str]] = {}
    for beginnings, rest in table:
        words = sorted(beginnings.split("|"), key=lambda word: word[0])
        for first, group in groupby(words, lambda word: word[0]):
            groups.setdefault(first, []).append(f"(?:{'|'.join(word[1:] for word in group)})(?:{rest})")
    patterns = (f"[{first}{first.upper()}](?i:{'|'.join(rows)})" for first, rows in groups.items())
    return f"(?:{'|'.join(patterns)})"


MONTH = rf"(?:{_any_of(*_MONTHS)}|[Dd]es(?=\.))"  # in Norwegian, "des." is December
"""The name of a month, without the dot of an abbreviation."""

_EAST_ASIAN_DAY = r"(?:[月火水木金土日]曜日?|(?:星期|周|週|禮拜|礼拜)[一二三四五六日天]|[월화수목금토일]요일)"
DAY_NAME = rf"(?:{_any_of(*_DAYS)}\b|{_EAST_ASIAN_DAY})"
"""The name of a day of the week that is a date on its own."""

DAY_LABEL = rf"(?:{_any_of(*_DAYS, _SHORT_DAYS)}\b|{_EAST_ASIAN_DAY}|[月火水木金土日월화수목금토일](?=\)))"
"""The name of a day of the week as part of a date."""

# What presents the moment that follows as the current one, with a verb of its own: how it may begin, and what follows.
_CURRENT_CLAUSES = (
    ("it", rf"(?: is|['’]s)(?: now| currently|(?= {DAY_NAME}))"),
    ("right now", r",? it(?: is|['’]s)"),
    ("the", r" (?:date|time|day|month|year) is(?: now| currently)?"),
    ("we", r"(?: are|['’]re)(?: now| currently)? in"),
    ("generated|rendered|built|compiled|updated", r" (?:at|on)"),
    ("wir haben", r" (?:heute|jetzt|den)"),
    ("wir", r" (?:befinden uns|sind)(?: jetzt| gerade)? im|(?: schreiben das jahr)"),
    ("heute haben wir", ""),
    ("es ist", r"(?: jetzt| gerade| nun)?"),
    ("jetzt ist es", ""),
    ("nous sommes", r"(?: aujourd['’]hui)?"),
    ("on est", r"(?: le| en)?"),
    ("il est", r"(?: maintenant| actuellement)?"),
    ("estamos|siamo", r" (?:a|en|em|in)"),
    ("ahora", r" (?:es|son)"),
    ("son las", ""),
    ("sono le", r"(?: ore)?"),
    ("são|het|klockan|klokken|jest", r"(?: is nu| is| är| er| teraz)"),
    ("сейчас|сегодня|сьогодні|bugün", ""),
)
# The same as a name: a verb, a colon or the like follows.
_CURRENT_NAMES = (
    ("today", r"(?:['’]?s)?(?:[ _-]?(?:date|day))?(?:(?: and|/) ?time)?"),
    ("yesterday|tomorrow|day of the week|day of week|weekday|wochentag|jour de la semaine|día de la semana", ""),
    ("this", r" (?:month|year)"),
    ("dieser|dieses|diese", r" (?:monat|jahr)"),
    ("ce", r" mois(?:-ci)?"),
    ("este|esta", r" (?:mes|año)"),
    ("date|day|time|month|year", r" (?:today|now|right now)"),
    (
        "current|present|local|system|server",
        (
            r"(?:[ _-]?(?:date|day|time|month|year|(?:calendar )?week(?:day)?|quarter|clock|moment)"
            r"(?:(?: and |[ _/-]| & )?(?:time|date|year))?|[ _-]?timestamp)"
        ),
    ),
    ("now|heute|vandaag|hoy|oggi|hoje|dzisiaj|dziś|dnes|idag|aujourd'hui|aujourd’hui", ""),
    ("datum", r" (?:von )?heute"),
    (
        "heutige|aktuelle|jetzige|derzeitige|gegenwärtige|laufende",
        r"[srn]? (?:datum|tag|zeit|uhrzeit|monat|jahr|woche|wochentag|zeitpunkt)(?: und (?:die )?(?:uhr)?zeit)?",
    ),
    (
        "date|heure|mois|année|jour|semaine",
        r"(?: et (?:l['’])?heure)? (?:actuel(?:le)?s?|courante?|du jour|en cours|d['’]aujourd['’]hui)",
    ),
    ("fecha|hora|mes|año|día|semana", r"(?: y (?:la )?hora)? (?:actual(?:es)?|de hoy|en curso)"),
    ("data|ora|mese|anno|giorno", r"(?: e (?:l['’])?ora)? (?:odiern[ao]|attual[ei]|corrente|di oggi)"),
    ("data|hora|mês|ano|dia", r"(?: e (?:a )?hora)? (?:atua(?:l|is)|de hoje|corrente)"),
    ("huidige|actuele", r" (?:datum|dag|tijd|maand|jaar|week)"),
    ("i dag", ""),
    ("dagens", r" (?:datum|dato)"),
    ("bieżąca|aktualna|dzisiejsza", r" data"),
    ("текущая|текущее|текущий", r" (?:дата|время|месяц|год)"),
)
_AS_OF = (
    ("as", r" (?:of|at)"),
    ("last", r" (?:updated|modified|changed|revised)(?: on| in)?"),
    ("letzte aktualisierung", ""),
    ("zuletzt aktualisiert", r"(?: am| im)?"),
    ("état", r" au"),
    ("mis", r" à jour (?:le|en)"),
    ("dernière mise à jour", ""),
    ("a fecha de", ""),
    ("actualizado", r" (?:el|en)"),
    ("última actualización", ""),
)
_EAST_ASIAN_CURRENT = (
    r"(?:今日|本日|きょう|ただいま|只今|現在|今(?=は)|今月|今年|今天|当前|當前|目前|现在|此刻|本月)の?的?"
    r"(?:系统|系統|北京)?(?:(?:日付|日時|年月|日期|时刻|時刻|时间|時間|月份|年份|星期|曜日|年|月)(?:[和と及/]?(?:时间|時間|時刻|日時))?)?"
    r"|(?:오늘|현재|지금|금일|이번 ?달|올해)의?(?: ?(?:날짜|시각|시간|일시|요일|연도|월)(?: 및 시간)?)?"
)
# What stands between such a phrase and the moment: "(UTC)", "in Berlin", '": "', "**:**", "is", "the", "Monday,".
_BETWEEN = (
    r"(?: ?\([^()\n]{1,40}\))?(?: (?:in|for|at) [A-Z][\w/]{1,20})?[^\w\n]{0,6}"
    r"(?:(?P<verb>(?:is|are|was|equals|set to|ist|c['’]est|nous sommes|est|es|son|è|é|is het|jest|är|er|je|это)\b"
    r"|[はが是为為]|[은는이가](?=\W))[^\w\n]{0,5})?"
    r"(?:(?:now|currently|the|jetzt|gerade|der|den|die|le|la|las|el|il|lo|o|a|het|de|dia|día|on|in|en|em|im)\b[^\w\n]{1,3}){0,2}"
)
_BETWEEN += rf"(?:{DAY_LABEL}\.?[^\w\n]{{1,3}}(?:(?:the|der|den|le|el|,) ?)?)?"
PRESENTED = (
    rf"(?<![^\W_])(?:{_phrases(_CURRENT_CLAUSES)}|(?P<name>{_phrases(_CURRENT_NAMES)}))(?![^\W_])"
    rf"(?P<between>{_BETWEEN})"
)
"""What presents the moment that follows as the current one, as in "Today is Monday, the ".

Groups: `name` is a phrase without a verb, which needs group `verb` or a colon or the like in group `between`.
"""

EAST_ASIAN_PRESENTED = rf"(?:{_EAST_ASIAN_CURRENT}){_BETWEEN}"
"""The same in Japanese, Chinese and Korean, without groups that matter."""

CONDITION = (
    r"(?:\b(?:if|when(?:ever)?|whether|in case|unless|until|once|assum\w+|suppose|imagine|say|wenn|falls|si|quand"
    r"|cuando|se|als|если)|もし|如果|若|假设|만약)[^\w\n]{0,3}(?:(?:that|the|das|der|la|le|el|dass|que) )?$"
)
"""What makes a condition of the phrase after it, which then presents nothing: "if today is Monday"."""

AS_OF = rf"(?<!\w)(?:{_phrases(_AS_OF)}|Stand(?: vom)?)[^\w\n]{{1,4}}(?:(?:the|der|le|el|early|mid|late) )?"
"""What says as of when a statement holds, which follows it: "as of Nov 2026"."""

EAST_ASIAN_AS_OF = "截[至止]"
AS_OF_AFTER = r" ?(?:時点|现在|現在|기준|현재)"
"""What says the same in front of the moment, or behind it, in Chinese, Japanese and Korean."""
