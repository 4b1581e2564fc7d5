// The code of libraries that consist of their names alone: what the loader needs of them is in their dynamic section.
