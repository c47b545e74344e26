"""English words for measuring and removing the bias of gender: after Bolukbasi et al. 2016, appendix C, and Caliskan et
al. 2017; single words in lower case."""

# Pairs whose difference is gender: they give the direction, towards the female word.
DEFINING_PAIRS = (
    *(('woman', 'man'), ('girl', 'boy'), ('she', 'he'), ('mother', 'father'), ('daughter', 'son')),
    *(('gal', 'guy'), ('female', 'male'), ('her', 'his'), ('herself', 'himself'), ('mary', 'john')),
)

# Pairs that every neutral word is to be equally near to.
EQUAL_PAIRS = (
    *DEFINING_PAIRS[:-1],
    *(('grandmother', 'grandfather'), ('grandma', 'grandpa'), ('granddaughter', 'grandson'), ('aunt', 'uncle')),
    *(('niece', 'nephew'), ('sister', 'brother'), ('wife', 'husband'), ('mom', 'dad'), ('queen', 'king')),
    *(('princess', 'prince'), ('lady', 'gentleman'), ('ladies', 'gentlemen'), ('women', 'men'), ('girls', 'boys')),
    *(('females', 'males'), ('mothers', 'fathers'), ('daughters', 'sons'), ('sisters', 'brothers')),
    *(('wives', 'husbands'), ('queens', 'kings'), ('motherhood', 'fatherhood'), ('schoolgirl', 'schoolboy')),
    *(('businesswoman', 'businessman'), ('chairwoman', 'chairman'), ('congresswoman', 'congressman')),
    *(('councilwoman', 'councilman'), ('spokeswoman', 'spokesman'), ('convent', 'monastery'), ('nun', 'monk')),
    *(('estrogen', 'testosterone'), ('sorority', 'fraternity'), ('mare', 'stallion'), ('filly', 'colt')),
)

_SPECIFIC = """
actor actors actress actresses aunts bachelor ballerina baritone baron baroness barons beard beards boyfriend
boyfriends boyhood bride bridegroom brides brotherhood bull bulls businessmen countess cow cowboy cowboys cows czar
daddy dowry duchess duke dukes earl earls emperor emperors empress fathered feminine feminism feminist fiance fiancee
fisherman fishermen fraternal girlfriend girlfriends goddess goddesses godfather godmother granddaughters grandmothers
grandsons groom heir heiress hen hens hero heroes heroine heroines hers him horseman horsemen hostess housewife
housewives lad lads landlady landlord lesbian lesbians lion lioness lions lord lords macho madam maid maiden maidens
maids mama masculine masculinity maternal maternity matriarch mistress mommy monks mr mrs ms mummy nephews nieces nuns
ovarian papa paternal paternity patriarch patriarchal patriarchs penis policeman policemen pregnancy pregnant
priestess prostate ram rams salesman salesmen semen sir sire soprano sperm spokesmen statesman statesmen stepdaughter
stepfather stepmother stepson tenor testes tsar uncles uterus vagina virgin viscount waitress widow widowed widower
widows witch witches wizard womanhood womb
"""
_OCCUPATIONS = """
accountant analyst archaeologist architect artist astronaut astronomer athlete author baker banker barber biologist
bishop boss botanist boxer butcher captain carpenter chef chemist clerk coach colonel comedian commander composer
conductor cook critic dancer dean dentist designer detective diplomat director doctor driver economist editor educator
engineer entertainer entrepreneur explorer farmer firefighter geologist guitarist historian hunter illustrator
inventor janitor journalist judge laborer lawyer lecturer librarian magician magistrate manager mathematician mechanic
merchant miner minister musician naturalist navigator novelist nurse officer painter philosopher photographer
physician physicist pianist pilot playwright plumber poet politician president priest producer professor programmer
prosecutor psychologist publicist receptionist reporter scholar scientist sculptor secretary sergeant servant sheriff
singer sociologist soldier solicitor statistician surgeon surveyor tailor teacher theologian trader translator
treasurer tutor violinist waiter warrior weaver worker writer
"""

# Words that mean a gender, and so are not neutralized.
SPECIFIC = frozenset(_SPECIFIC.split()) | {word for pair in (*DEFINING_PAIRS, *EQUAL_PAIRS) for word in pair}

# Words that should be neutral.
OCCUPATIONS = tuple(_OCCUPATIONS.split())

# Word embedding association tests 6, 7 and 8 of Caliskan et al. 2017: targets, and attributes male and female.
NAMES = (
    ('john', 'paul', 'mike', 'kevin', 'steve', 'greg', 'jeff', 'bill'),
    ('amy', 'joan', 'lisa', 'sarah', 'diana', 'kate', 'ann', 'donna'),
)
CAREER_FAMILY = (
    ('executive', 'management', 'professional', 'corporation', 'salary', 'office', 'business', 'career'),
    ('home', 'parents', 'children', 'family', 'cousins', 'marriage', 'wedding', 'relatives'),
)
MATH_ARTS = (
    ('math', 'algebra', 'geometry', 'calculus', 'equations', 'computation', 'numbers', 'addition'),
    ('poetry', 'art', 'dance', 'literature', 'novel', 'symphony', 'drama', 'sculpture'),
)
SCIENCE_ARTS = (
    ('science', 'technology', 'physics', 'chemistry', 'einstein', 'nasa', 'experiment', 'astronomy'),
    ('poetry', 'art', 'shakespeare', 'dance', 'literature', 'novel', 'symphony', 'drama'),
)
MALE_FEMALE = (
    ('male', 'man', 'boy', 'brother', 'he', 'him', 'his', 'son'),
    ('female', 'woman', 'girl', 'sister', 'she', 'her', 'hers', 'daughter'),
)
MALE_FEMALE_KIN = (
    ('brother', 'father', 'uncle', 'grandfather', 'son', 'he', 'his', 'him'),
    ('sister', 'mother', 'aunt', 'grandmother', 'daughter', 'she', 'hers', 'her'),
)
# Targets and attributes of each test.
TESTS = {
    'career and family, names': (NAMES, CAREER_FAMILY),
    'mathematics and arts': (MATH_ARTS, MALE_FEMALE),
    'science and arts': (SCIENCE_ARTS, MALE_FEMALE_KIN),
}
